/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Pseudo-terminals. What is typed is one channel, what is shown another one. Each mount of devpts, as in a container, has
 * numbers of its own.
 */

struct tty_struct {
	/* The other end, if it is one of a pair. */
	struct tty_struct *link;
	s32 index;
	/* Of the side of the programs: its dentry. */
	void *driver_data;
} __attribute__((preserve_access_index));

struct tty_file_private {
	struct tty_struct *tty;
} __attribute__((preserve_access_index));

/* include/uapi/linux/major.h: the first of eight for terminals, and that of /dev/tty and /dev/ptmx. */
enum { UNIX98_PTY_SLAVE_MAJOR = 136, TTYAUX_MAJOR = 5 };
#define PTMX (TTYAUX_MAJOR << 20 | 2)

/* Find out which channels an open device reads and writes. */
static __always_inline void learn_terminal(struct pr_file *file, const struct file *open, u32 number)
{
	u32 major = number >> 20, is_master = number == PTMX;
	const struct tty_file_private *private;
	const struct tty_struct *terminal = 0, *link;
	const struct dentry *name;
	u64 typed;

	if (!bpf_core_field_exists(terminal->link))
		return;
	if (major - UNIX98_PTY_SLAVE_MAJOR >= 8 && major != TTYAUX_MAJOR)
		return;
	private = BPF_CORE_READ(open, private_data);
	terminal = BPF_CORE_READ(private, tty);
	link = BPF_CORE_READ(terminal, link);
	if (!terminal || !link)
		return;
	name = BPF_CORE_READ(is_master ? link : terminal, driver_data);
	typed = (u64)BPF_CORE_READ(name, d_sb, s_dev) << 32 | ((u32)BPF_CORE_READ(terminal, index) * 2 + 2);
	file->inodes[PR_READ] = typed + is_master;
	file->inodes[PR_WRITE] = typed + !is_master;
	file->device = PR_TERMINAL;
}
