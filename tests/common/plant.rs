//! Kernels with more work of a known size, made of a fetched kernel's image without building it. A bzImage decompresses its
//! kernel to a known place (nokaslr) and jumps there. The call of its decompressor is led through a few bytes that then write
//! a loop into padding of the kernel's code, and lead one call of the kernel through that loop.

use pipeprof::result::code::ExecutedCode;

/// Where the kernel's code is linked, less where it is loaded.
const LINKED: u64 = 0xffff_ffff_8000_0000;

/// The code of entries begins at a multiple of this, after padding.
const ALIGNED: u64 = 2 << 20;

/// Bytes of padding that are used.
const ROOM: u64 = 256;

/// A jump or call to `callee` in the function `caller` is led through a loop.
pub(crate) struct PlantedLoop {
    pub caller: &'static str,
    pub callee: &'static str,
    /// Iterations, of two instructions each.
    pub times: u32,
}

impl PlantedLoop {
    /// Instructions that each call takes more: setting the counter, the loop, a jump.
    pub(crate) fn instructions(&self) -> u64 {
        u64::from(self.times) * 2 + 2
    }

    /// How often the call was executed in `code`, by anyone.
    pub(crate) fn calls(&self, code: &ExecutedCode) -> u64 {
        self.site(code).1
    }

    /// The address of the call in `code`, and how often it was executed.
    fn site(&self, code: &ExecutedCode) -> (u64, u64) {
        let callee = address(code, self.callee);
        let function = code.functions.iter().find(|function| function.name == self.caller).expect("the caller runs");
        let sites = function.instructions.iter().filter_map(|instruction| {
            let bytes = bytes(&instruction.code);
            let (0xe8 | 0xe9, offset) = bytes.split_first()? else { return None };
            let at = function.address + instruction.offset;
            let offset = i64::from(i32::from_le_bytes(offset.try_into().ok()?));
            (at.wrapping_add_signed(offset + 5) == callee).then(|| (at, instruction.counts.iter().sum()))
        });
        let sites: Vec<(u64, u64)> = sites.collect();
        assert_eq!(sites.len(), 1, "one call of {} in {}: {sites:x?}", self.callee, self.caller);
        sites[0]
    }

    /// The kernel of `image`, which executed `code`, with the loop.
    pub(crate) fn planted(&self, mut image: Vec<u8>, code: &ExecutedCode) -> Vec<u8> {
        let cave = address(code, "entry_SYSCALL_64") / ALIGNED * ALIGNED - ROOM;
        let (site, _) = self.site(code);
        let relative = |from: u64, to: u64| i32::try_from(to.wrapping_sub(from).cast_signed()).unwrap().to_le_bytes();
        // mov $times, %r11d; dec %r11d; jnz; jmp callee. No call passes anything in r11.
        let mut looped = [&[0x41, 0xbb][..], &self.times.to_le_bytes(), &[0x41, 0xff, 0xcb, 0x75, 0xfb, 0xe9]].concat();
        let end = cave + looped.len() as u64 + 4;
        looped.extend(relative(end, address(code, self.callee)));
        let changes = [(cave, looped), (site + 1, relative(site + 5, cave).to_vec())];
        let bytes = changes.iter().flat_map(|(at, bytes)| (*at..).zip(bytes));
        // movb $byte, address: keeps what the decompressor returns.
        let stores = bytes.flat_map(|(at, byte)| {
            let at = u32::try_from(at - LINKED).unwrap().to_le_bytes();
            [&[0xc6, 0x04, 0x25][..], &at, &[*byte]].concat()
        });
        let stores: Vec<u8> = stores.chain([0xc3]).collect();
        // Offsets are those of Documentation/arch/x86/boot.rst.
        let long = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap());
        let setup = (usize::from(image[0x1f1]) + 1) * 512;
        let code_begin = setup + long(0x248) as usize + long(0x24c) as usize;
        // mov %r15, %rsi or pop %rsi; jmp *%rax: the last call before it is that of the decompressor.
        let after = &image[code_begin..];
        let jump = (0..after.len()).find(|at| {
            after[*at..].starts_with(&[0x4c, 0x89, 0xfe, 0xff, 0xe0]) || after[*at..].starts_with(&[0x5e, 0xff, 0xe0])
        });
        let jump = code_begin + jump.expect("the jump to the kernel");
        let call = (jump - 12..jump).rev().find(|at| image[*at] == 0xe8).expect("the call of the decompressor");
        let decompressor = (call as u64 + 5).wrapping_add_signed(i64::from(long(call + 1).cast_signed()));
        // Padding ends at a page.
        let room = stores.len() + 64;
        let pages = (code_begin - setup).div_ceil(4096) + 1..(image.len() - setup) / 4096;
        let padding =
            pages.map(|page| setup + page * 4096 - room).find(|at| image[*at..*at + room].iter().all(|b| *b == 0));
        let stub = padding.expect("padding in the image") + 32;
        let offset = |from: usize, to: u64| relative(from as u64 + 5, to);
        let whole = [&[0xe8][..], &offset(stub, decompressor), &stores].concat();
        image[stub..stub + whole.len()].copy_from_slice(&whole);
        image[call + 1..call + 5].copy_from_slice(&offset(call, stub as u64));
        image
    }
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn address(code: &ExecutedCode, name: &str) -> u64 {
    code.functions.iter().find(|function| function.name == name).map(|function| function.address).expect(name)
}
