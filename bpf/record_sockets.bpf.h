/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Unix sockets, and TCP connections of this machine with itself. Each direction is a channel.
 */

struct ns_common {
	u32 inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

struct sk_buff_head {
	u32 qlen;
} __attribute__((preserve_access_index));

struct socket {
	short type;
	struct file *file;
	struct sock *sk;
} __attribute__((preserve_access_index));

struct in6_words {
	u32 words[4];
};

struct sock_common {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	struct {
		struct net *net;
	} skc_net;
	struct in6_words skc_v6_daddr;
	struct in6_words skc_v6_rcv_saddr;
} __attribute__((preserve_access_index));

struct counter {
	s32 counter;
};

/* Since Linux 6.18. */
struct numa_drop_counters {
	struct counter drops0;
	struct counter drops1;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket;
	struct sk_buff_head sk_receive_queue;
	struct {
		struct {
			s32 counter;
		} refs;
	} sk_wmem_alloc;
	s32 sk_wmem_queued;
	s32 sk_sndbuf;
	s32 sk_rcvbuf;
	struct {
		struct {
			s32 counter;
		} rmem_alloc;
	} sk_backlog;
	struct counter sk_drops;
	struct numa_drop_counters *sk_drop_counters;
	u16 sk_type;
	u16 sk_protocol;
} __attribute__((preserve_access_index));

/* Its begin is the sock. */
struct inet_sock {
	u16 inet_sport;
} __attribute__((preserve_access_index));

/* Its begin is the sock. */
struct tcp_sock {
	u32 snd_nxt;
	u32 write_seq;
	u32 packets_out;
	u32 mss_cache;
} __attribute__((preserve_access_index));

/* Its begin is the sock. */
struct unix_sock {
	struct sock *peer;
} __attribute__((preserve_access_index));

/* Whether the kernel has Unix sockets. */
#define HAS_UNIX bpf_core_field_exists(((struct unix_sock *)0)->peer)

/* include/linux/socket.h, net.h and uapi/linux/in.h. */
enum { AF_UNIX = 1, AF_INET = 2, AF_INET6 = 10 };
enum { SOCK_STREAM = 1, SOCK_DGRAM = 2, SOCK_SEQPACKET = 5 };
enum { IPPROTO_TCP = 6 };
enum { MSG_PEEK = 2, MSG_ERRQUEUE = 0x2000 };

/* The inode of a socket; 0 if nobody has accepted or still has it. */
static __always_inline u64 inode_of_socket(const struct sock *sock)
{
	const struct socket *socket = sock ? BPF_CORE_READ(sock, sk_socket) : 0;

	return socket ? BPF_CORE_READ(socket, file, f_inode, i_ino) : 0;
}

/* An address, whether it is one of this machine, and the same of the other end. */
struct tcp_ends {
	u64 own;
	u64 peer;
	int is_local;
};

static __always_inline u64 mixed(const struct in6_words *address)
{
	return (((u64)address->words[0] << 32 | address->words[1]) * 0x9e3779b97f4a7c15ULL) ^
	       ((u64)address->words[2] << 32 | address->words[3]);
}

static __always_inline void read_ends(const struct sock *sock, struct tcp_ends *ends)
{
	struct in6_words own = {}, peer = { { 0, 0, 0xffff0000 } };

	if (bpf_core_field_exists(sock->__sk_common.skc_v6_daddr))
		BPF_CORE_READ_INTO(&peer, sock, __sk_common.skc_v6_daddr);
	/* ::ffff:a.b.c.d has an IPv4 address as well. */
	if (bpf_core_field_exists(sock->__sk_common.skc_v6_daddr) &&
	    BPF_CORE_READ(sock, __sk_common.skc_family) == AF_INET6 &&
	    (peer.words[0] || peer.words[1] || peer.words[2] != 0xffff0000)) {
		BPF_CORE_READ_INTO(&own, sock, __sk_common.skc_v6_rcv_saddr);
		ends->own = mixed(&own);
		ends->peer = mixed(&peer);
	} else {
		ends->own = BPF_CORE_READ(sock, __sk_common.skc_rcv_saddr);
		ends->peer = BPF_CORE_READ(sock, __sk_common.skc_daddr);
	}
	/* 127.0.0.0/8, or the same address, as with ::1. */
	ends->is_local = ends->peer && (ends->own == ends->peer || ((ends->peer & 0xff) == 127 && !(ends->peer >> 32)));
}

/* A TCP connection in one direction. */
static __always_inline u64 tcp_inode(u64 from, u64 to, u32 from_port, u32 to_port, u32 space)
{
	u64 hash = ((from * 31 + to) * 31 + space) * 0x9e3779b97f4a7c15ULL;

	return (hash & 0xffffffff00000000ULL) | to_port << 16 | from_port;
}

static __always_inline void learn_tcp(struct pr_file *file, const struct sock *sock)
{
	struct tcp_ends ends = {};
	u32 own, peer, space = 0;

	peer = BPF_CORE_READ(sock, __sk_common.skc_dport);
	if (!peer)
		return;
	read_ends(sock, &ends);
	if (!ends.is_local)
		return;
	peer = (peer >> 8 | peer << 8) & 0xffff;
	own = BPF_CORE_READ(sock, __sk_common.skc_num);
	/* A connection that was reset has given its port back. */
	if (!own) {
		own = BPF_CORE_READ((const struct inet_sock *)sock, inet_sport);
		own = (own >> 8 | own << 8) & 0xffff;
	}
	if (bpf_core_field_exists(sock->__sk_common.skc_net.net))
		space = BPF_CORE_READ(sock, __sk_common.skc_net.net, ns.inum);
	file->inodes[PR_READ] = tcp_inode(ends.peer, ends.own, peer, own, space);
	file->inodes[PR_WRITE] = tcp_inode(ends.own, ends.peer, own, peer, space);
	file->device = PR_SOCKET_TCP;
}

/* Find out which channels an open socket reads and writes. */
static __always_inline void learn_socket(struct pr_file *file, const struct file *open)
{
	const struct socket *socket = BPF_CORE_READ(open, private_data);
	const struct sock *sock = BPF_CORE_READ(socket, sk), *peer;
	u64 own, to;
	u16 family = BPF_CORE_READ(sock, __sk_common.skc_family), type = BPF_CORE_READ(socket, type);

	if (family == AF_UNIX && HAS_UNIX) {
		peer = BPF_CORE_READ((const struct unix_sock *)sock, peer);
		own = BPF_CORE_READ(open, f_inode, i_ino);
		to = inode_of_socket(peer);
		/* It can be connected, and the other end accepted, without a call of this thread. */
		if (!to)
			file->generation--;
		/* A closed end has none any more. */
		if (to || file->inodes[PR_READ] != own)
			file->inodes[PR_WRITE] = to;
		file->inodes[PR_READ] = own;
		file->device = PR_SOCKET_STREAM - SOCK_STREAM + type;
	} else if ((family == AF_INET || family == AF_INET6) && type == SOCK_STREAM) {
		learn_tcp(file, sock);
	}
	if (file->device)
		file->socket = (u64)sock;
}

/* The bytes that a socket's channel holds, above its capacity: what the sender has allocated of its buffer, or what the
 * receiver of a TCP connection has not read. Not static: see native_number. */
__noinline u64 socket_fill(u64 address, u32 device, u32 side)
{
	const struct sock *sock = (const void *)address;
	u64 used, most;

	if (HAS_UNIX && device != PR_SOCKET_TCP) {
		/* The receiver's queue is charged to the sender. */
		if (side == PR_READ)
			sock = BPF_CORE_READ((const struct unix_sock *)sock, peer);
		if (!sock)
			return 0;
		used = BPF_CORE_READ(sock, sk_wmem_alloc.refs.counter) - 1;
		most = BPF_CORE_READ(sock, sk_sndbuf);
	} else if (side == PR_WRITE) {
		used = BPF_CORE_READ(sock, sk_wmem_queued);
		most = BPF_CORE_READ(sock, sk_sndbuf);
	} else {
		used = BPF_CORE_READ(sock, sk_backlog.rmem_alloc.counter);
		most = BPF_CORE_READ(sock, sk_rcvbuf);
	}
	return (u32)most ? (u64)(u32)used << 32 | (u32)most : 0;
}

/* Whether less than a segment has been written and not sent, because what was sent before has not been confirmed: Nagle's
 * algorithm (net/ipv4/tcp_output.c, tcp_nagle_test). Not static: see native_number. */
__noinline u32 is_held_back(u64 socket)
{
	const struct tcp_sock *sock = (const void *)socket;
	u32 unsent;

	if (!sock || !bpf_core_field_exists(sock->write_seq))
		return 0;
	unsent = BPF_CORE_READ(sock, write_seq) - BPF_CORE_READ(sock, snd_nxt);
	return unsent && BPF_CORE_READ(sock, packets_out) && unsent < BPF_CORE_READ(sock, mss_cache);
}

/* Datagrams for a socket that the kernel has dropped, mostly because its receive buffer was full. */
static __always_inline u64 drops_of(const struct sock *sock)
{
	const struct numa_drop_counters *by_node = 0;

	if (!sock)
		return 0;
	if (bpf_core_field_exists(sock->sk_drop_counters))
		by_node = BPF_CORE_READ(sock, sk_drop_counters);
	if (by_node)
		return (u32)BPF_CORE_READ(by_node, drops0.counter) + (u32)BPF_CORE_READ(by_node, drops1.counter);
	return (u32)BPF_CORE_READ(sock, sk_drops.counter);
}

/* Whether there is something to read. */
static __always_inline u32 has_unread(u64 socket)
{
	return BPF_CORE_READ((const struct sock *)socket, sk_receive_queue.qlen) > 0;
}

/* include/linux/socket.h, struct mmsghdr. */
struct message {
	u64 header[7];
	u32 bytes;
	u32 spare;
};

/* The bytes of the first `count` messages of a recvmmsg or sendmmsg of the current thread. Not static: see
 * native_number. */
__noinline u64 bytes_of_messages(u64 messages, u32 count)
{
	u64 sum = 0;
	u32 bytes, i;

	for (i = 0; i < PR_MESSAGES && i < count; i++) {
		if (bpf_probe_read_user(&bytes, sizeof(bytes),
					(void *)(messages + i * sizeof(struct message) +
						 __builtin_offsetof(struct message, bytes))))
			break;
		sum += bytes;
	}
	return sum;
}
