//! Reads the settings of a guest back from the emulator's arguments in a document: the reverse of [`super::qemu`].

use super::qemu::command_line;
use super::{Accel, GuestMachine, GuestOptions, Kernel};
use crate::result::{Emulator, ExecutedOn};
use anyhow::{Context as _, Result, bail};

/// The machine that a stored run had. Time limits are not stored; they are the defaults.
pub(crate) fn machine(emulator: &Emulator, on: ExecutedOn) -> Result<GuestMachine> {
    let value = |flag: &str| {
        let place = emulator.arguments.iter().position(|argument| argument == flag)?;
        emulator.arguments.get(place + 1).map(String::as_str)
    };
    let cpus = value("-smp").and_then(|text| text.parse().ok()).context("the number of CPUs is missing")?;
    let memory = value("-m").and_then(|text| text.strip_suffix('M')?.parse::<u64>().ok());
    let memory = memory.and_then(|mib| mib.checked_mul(1 << 20)).context("the size of the memory is missing")?;
    let cpu = value("-cpu").context("the CPU model is missing")?;
    let accel = match on {
        ExecutedOn::Tcg => Accel::Tcg,
        ExecutedOn::Kvm => Accel::Kvm,
        ExecutedOn::Hardware => bail!("it ran on hardware, but has an emulator"),
    };
    let mut machine =
        GuestMachine { accel, cpus: Some(cpus), memory, cpu: Some(cpu.to_owned()), ..GuestMachine::default() };
    let all = value("-append").context("the kernel arguments are missing")?;
    machine.append = added(all, &machine, on)
        .context("the kernel arguments are of another build of pipeprof, so --append cannot be read back")?;
    Ok(machine)
}

/// The user's part of the kernel arguments `all`: what follows ours.
fn added(all: &str, machine: &GuestMachine, on: ExecutedOn) -> Option<Vec<String>> {
    let kernel = Kernel { image: "".into(), release: String::new(), config: None };
    let ours = command_line(&GuestOptions { cpus: machine.cpus(), ..GuestOptions::of(kernel) }, on);
    match all.strip_prefix(&ours)? {
        "" => Some(Vec::new()),
        rest => Some(vec![rest.strip_prefix(' ')?.to_owned()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::qemu::{Files, arguments, describe};

    fn described(options: &GuestOptions, on: ExecutedOn) -> Emulator {
        let files = Files::in_folder(std::path::Path::new(""));
        describe("QEMU", &arguments(options, on, &files), &files, options)
    }

    #[test]
    fn settings_are_read_back_as_they_were_given() {
        let kernel = || Kernel { image: "/k/vmlinuz".into(), release: "6.1.0".into(), config: None };
        for on in [ExecutedOn::Tcg, ExecutedOn::Kvm] {
            for cpus in [1, 2] {
                for append in [&[][..], &["psi=0"], &["psi=0 quiet", "x=\"a b\""]] {
                    let append: Vec<String> = append.iter().map(|&text| text.to_owned()).collect();
                    let options = GuestOptions {
                        cpus,
                        memory_mib: 256,
                        cpu: Some("max,+erms".into()),
                        append,
                        ..GuestOptions::of(kernel())
                    };
                    let emulator = described(&options, on);
                    let machine = machine(&emulator, on).unwrap();
                    assert_eq!((machine.cpus(), machine.memory), (cpus, 256 << 20));
                    assert_eq!(machine.cpu.as_deref(), Some("max,+erms"));
                    assert_eq!(machine.append.join(" "), options.append.join(" "));
                    assert_eq!(machine.accel == Accel::Kvm, on == ExecutedOn::Kvm);
                    let again = GuestOptions { append: machine.append, ..options };
                    assert_eq!(described(&again, on), emulator);
                }
            }
        }
    }

    #[test]
    fn a_missing_setting_is_refused_and_named() {
        let kernel = Kernel { image: "/k/vmlinuz".into(), release: "6.1.0".into(), config: None };
        let emulator = described(&GuestOptions::of(kernel), ExecutedOn::Tcg);
        for (flag, says) in [("-smp", "CPUs"), ("-m", "memory"), ("-cpu", "CPU model"), ("-append", "kernel arguments")]
        {
            let mut less = emulator.clone();
            let place = less.arguments.iter().position(|argument| argument == flag).unwrap();
            less.arguments.drain(place..place + 2);
            let error = machine(&less, ExecutedOn::Tcg).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let mut other = emulator;
        for argument in &mut other.arguments {
            *argument = argument.replace("nokaslr", "kaslr");
        }
        assert!(machine(&other, ExecutedOn::Tcg).unwrap_err().to_string().contains("another build"));
    }
}
