//! What is known of an instruction.

/// Where an instruction leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Next,
    /// A direct or indirect call.
    Call,
    /// To its target.
    Jump,
    /// To its target or to the next instruction.
    Branch,
    Return,
    /// Anywhere.
    Indirect,
}

/// An instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    pub flow: Flow,
    /// Of a direct call, jump or branch; otherwise 0.
    pub target: u64,
    /// The address after it.
    pub next: u64,
}

/// The names of addresses, for the text of an instruction.
pub type AddressNames = dyn Fn(u64) -> Option<String>;

/// Makes the text of an instruction: its code, at its address.
pub type Disassembler = dyn FnMut(&[u8], u64) -> String;
