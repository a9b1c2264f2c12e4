/*
 * guard.c - guarded access, and the signal handler behind it.
 *
 * Theory of operation
 *
 * The guarded routines lie in one range of code (guard_*.S). When one of their
 * instructions faults, the handler finds the program counter in that range and moves it
 * to a landing that returns -EFAULT; the routines have no frame, so nothing else is to be
 * undone. On other machines the routines are C between sigsetjmp() and the end of struct
 * guard_frame.
 *
 * A signal from anywhere else is the application's. The handler does what the kernel
 * would have done with the application's own action: run its handler under its mask
 * (SA_RESETHAND, SA_NODEFER, with or without SA_SIGINFO), ignore, or die with the default
 * action. When that handler returns, the kernel restores mask and registers from our own
 * signal frame, in which the handler may have changed them.
 *
 * The actions live behind a sequence count: handlers read them without a lock,
 * guard_sigaction() writes them with the two signals blocked, so that it is never
 * interrupted by a reader.
 *
 * A synchronous signal that is blocked kills the process whatever its action is. So the
 * first guarded access of a thread unblocks the two signals, once per thread.
 *
 * System calls are made directly: the names of libc are interposed in the process that
 * this code lives in. This file knows nothing of MRs; its tables are the only global
 * state.
 */
#include "odp/guard.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(GUARD_GENERIC)
#include "odp/guard_asm.h"
#else
#define GUARD_SETJMP
#include <setjmp.h>
#endif

/* Reachable from a signal handler without a call into the loader */
#define THREAD_LOCAL __attribute__((tls_model("initial-exec"))) __thread

/* --- system calls ----------------------------------------------------------------- */

/*
 * struct ksigaction - what rt_sigaction(2) reads and writes: struct sigaction of the kernel's
 * <asm/signal.h>, which cannot be included beside that of libc
 * @restorer:	there where the kernel's header has SA_RESTORER, whether it is used or not
 * @mask:	64 signals
 */
#if defined(__x86_64__) || defined(__aarch64__) || defined(__powerpc64__) ||             \
    defined(__s390x__)
#define KSIGACTION_RESTORER
#elif !defined(__riscv) && !defined(__loongarch__)
#error "does the kernel's struct sigaction have a restorer on this machine?"
#endif
struct ksigaction {
	union {
		void (*handler)(int);
		void (*siginfo)(int, siginfo_t *, void *);
	};
	unsigned long flags;
#if defined(KSIGACTION_RESTORER)
	void (*restorer)(void);
#endif
	uint64_t mask;
};

#define SA_RESTORER_FLAG 0x04000000
#if defined(__x86_64__)
/*
 * x86-64 has no return trampoline in the vDSO; the byte sequence is the one unwinders
 * know.
 */
void guard_restorer(void);
__asm__(".text\n"
	".p2align 4\n"
	"	nop\n"
	".globl guard_restorer\n"
	".hidden guard_restorer\n"
	".type guard_restorer, @function\n"
	"guard_restorer:\n"
	"	movq $15, %rax\n" /* rt_sigreturn */
	"	syscall\n"
	".size guard_restorer, . - guard_restorer\n");
#endif

static int sys_sigaction(int sig, const struct ksigaction *act, struct ksigaction *old)
{
	return syscall(SYS_rt_sigaction, sig, act, old, sizeof(act->mask)) ? -errno : 0;
}

static void sys_sigmask(int how, const uint64_t *set, uint64_t *old)
{
	syscall(SYS_rt_sigprocmask, how, set, old, sizeof(*set));
}

static uint64_t sigbit(int sig)
{
	return 1ull << (sig - 1);
}

#define GUARD_SIGNALS (1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1))

/* --- the application's actions ---------------------------------------------------- */

/*
 * struct chain - what the application wants done with SIGSEGV (0) and SIGBUS (1)
 * @seq:	odd while an action is being written
 * @word:	the struct sigaction, in words so that readers may race
 */
#define CHAIN_WORDS ((sizeof(struct sigaction) + 7) / 8)
static struct chain {
	_Atomic uint32_t seq;
	_Atomic uint64_t word[CHAIN_WORDS];
} chains[2];
/* Of those who write the chains or the kernel's actions */
static pthread_mutex_t chain_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool installed;

static struct chain *chain_of(int sig)
{
	return &chains[sig == SIGBUS];
}

static void chain_read(int sig, struct sigaction *act)
{
	struct chain *c = chain_of(sig);
	uint64_t w[CHAIN_WORDS];
	uint32_t seq;

	do {
		seq = atomic_load_explicit(&c->seq, memory_order_acquire);
		for (size_t i = 0; i < CHAIN_WORDS; i++)
			w[i] = atomic_load_explicit(&c->word[i], memory_order_acquire);
	} while ((seq & 1) || seq != atomic_load(&c->seq));
	memcpy(act, w, sizeof(*act));
}

/* Called with chain_lock held and both signals blocked */
static void chain_write(int sig, const struct sigaction *act)
{
	struct chain *c = chain_of(sig);
	uint64_t w[CHAIN_WORDS] = {0};

	memcpy(w, act, sizeof(*act));
	atomic_fetch_add(&c->seq, 1);
	for (size_t i = 0; i < CHAIN_WORDS; i++)
		atomic_store_explicit(&c->word[i], w[i], memory_order_release);
	atomic_fetch_add(&c->seq, 1);
}

/* This thread forks, and has the lock: signals may come meanwhile. */
static THREAD_LOCAL bool forking;

static uint64_t chain_lock_blocked(void)
{
	uint64_t all = ~0ull, old;

	sys_sigmask(SIG_BLOCK, &all, &old);
	if (!forking)
		pthread_mutex_lock(&chain_lock);
	return old;
}

static void chain_unlock(uint64_t old)
{
	if (!forking)
		pthread_mutex_unlock(&chain_lock);
	sys_sigmask(SIG_SETMASK, &old, NULL);
}

void guard_fork_begin(void)
{
	uint64_t old = chain_lock_blocked();

	forking = true;
	sys_sigmask(SIG_SETMASK, &old, NULL);
}

void guard_fork_end(void)
{
	uint64_t old = chain_lock_blocked();

	forking = false;
	chain_unlock(old);
}

/* --- state of a thread ------------------------------------------------------------ */

/* Did this thread unblock the two signals? */
static THREAD_LOCAL bool thread_ready;

static __attribute__((noinline, cold)) void thread_prepare(void)
{
	uint64_t set = GUARD_SIGNALS;

	sys_sigmask(SIG_UNBLOCK, &set, NULL);
	thread_ready = true;
}

/* See guard_interruptible(); was it interrupted? */
static THREAD_LOCAL bool interruptible;
static THREAD_LOCAL volatile bool interrupted;

void guard_interruptible(void)
{
	interruptible = true;
}

bool guard_interrupted(void)
{
	bool was = interrupted;

	interrupted = false;
	return was;
}

static inline void guard_enter(void)
{
	if (__builtin_expect(!thread_ready, 0))
		thread_prepare();
}

/* --- the guarded routines --------------------------------------------------------- */

#ifndef GUARD_SETJMP

static int (*copy_routine)(void *, const void *, size_t) = guard_asm_copy;

static void choose_routines(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx"))
		copy_routine = guard_avx_copy;
#endif
}

int guard_copy(void *dst, const void *src, size_t len)
{
	guard_enter();
	return copy_routine(dst, src, len);
}

int guard_cmp_swap(uint64_t *p, uint64_t cmp, uint64_t swap, uint64_t *orig)
{
	guard_enter();
	return guard_asm_cmp_swap(p, cmp, swap, orig);
}

int guard_fetch_add(uint64_t *p, uint64_t add, uint64_t *orig)
{
	guard_enter();
	return guard_asm_fetch_add(p, add, orig);
}

int guard_store64(uint64_t *p, uint64_t v)
{
	guard_enter();
	return guard_asm_store64(p, v);
}

static int touch_read(const char *p)
{
	return guard_asm_touch_read(p);
}

static int touch_write(char *p)
{
	return guard_asm_touch_write(p);
}

static bool in_range(uintptr_t pc, const char *begin, const char *end)
{
	return pc >= (uintptr_t)begin && pc < (uintptr_t)end;
}

/* Move a fault in a guarded routine to its landing; false if it was none */
static bool guard_recover(ucontext_t *uc)
{
#if defined(__x86_64__)
	greg_t *pc = &uc->uc_mcontext.gregs[REG_RIP];

	if (in_range(*pc, guard_avx_text, guard_avx_text_end)) {
		*pc = (greg_t)guard_avx_landing;
		return true;
	}
	if (in_range(*pc, guard_asm_text, guard_asm_text_end)) {
		*pc = (greg_t)guard_asm_landing;
		return true;
	}
#else
	if (in_range(uc->uc_mcontext.pc, guard_asm_text, guard_asm_text_end)) {
		uc->uc_mcontext.pc = (uintptr_t)guard_asm_landing;
		return true;
	}
#endif
	return false;
}

#else /* GUARD_SETJMP */

/*
 * struct guard_frame - where a fault of this thread continues
 * @lo, @hi: the addresses that may fault
 */
struct guard_frame {
	sigjmp_buf env;
	uintptr_t lo[2], hi[2];
};
static THREAD_LOCAL struct guard_frame *volatile frame;

static void choose_routines(void)
{
}

/* Run @body, in which a fault on [p, p+n) or [q, q+m) ends in -EFAULT */
#define GUARDED(p, n, q, m, body)                                                        \
	do {                                                                             \
		struct guard_frame f_;                                                   \
                                                                                         \
		guard_enter();                                                           \
		f_.lo[0] = (uintptr_t)(p), f_.hi[0] = f_.lo[0] + (n);                    \
		f_.lo[1] = (uintptr_t)(q), f_.hi[1] = f_.lo[1] + (m);                    \
		if (sigsetjmp(f_.env, 0)) {                                              \
			frame = NULL;                                                    \
			return -EFAULT;                                                  \
		}                                                                        \
		frame = &f_;                                                             \
		atomic_signal_fence(memory_order_seq_cst);                               \
		body;                                                                    \
		atomic_signal_fence(memory_order_seq_cst);                               \
		frame = NULL;                                                            \
	} while (0)

int guard_copy(void *dst, const void *src, size_t len)
{
	if (!len)
		return 0;
	/* the last byte last: programs poll on it */
	GUARDED(dst, len, src, len, {
		memcpy(dst, src, len - 1);
		atomic_thread_fence(memory_order_release);
		((volatile char *)dst)[len - 1] = ((const volatile char *)src)[len - 1];
	});
	return 0;
}

int guard_cmp_swap(uint64_t *p, uint64_t cmp, uint64_t swap, uint64_t *orig)
{
	GUARDED(p, 8, NULL, 0, {
		__atomic_compare_exchange_n(p, &cmp, swap, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
	});
	*orig = cmp;
	return 0;
}

int guard_fetch_add(uint64_t *p, uint64_t add, uint64_t *orig)
{
	GUARDED(p, 8, NULL, 0, { *orig = __atomic_fetch_add(p, add, __ATOMIC_SEQ_CST); });
	return 0;
}

int guard_store64(uint64_t *p, uint64_t v)
{
	GUARDED(p, 8, NULL, 0, { __atomic_store_n(p, v, __ATOMIC_RELEASE); });
	return 0;
}

static int touch_read(const char *p)
{
	GUARDED(p, 1, NULL, 0, { (void)*(const volatile char *)p; });
	return 0;
}

static int touch_write(char *p)
{
	GUARDED(p, 1, NULL, 0, { __atomic_fetch_or(p, 0, __ATOMIC_RELAXED); });
	return 0;
}

static bool guard_recover_at(const siginfo_t *info)
{
	uintptr_t addr = (uintptr_t)info->si_addr;
	struct guard_frame *f = frame;

	if (!f)
		return false;
	/* an address that no process can have is not told */
	if (info->si_code == SI_KERNEL)
		siglongjmp(f->env, 1);
	for (int i = 0; i < 2; i++)
		if (addr >= f->lo[i] && addr < f->hi[i])
			siglongjmp(f->env, 1);
	return false;
}

#endif

int guard_touch(uintptr_t addr, size_t len, int write)
{
	uintptr_t page = sysconf(_SC_PAGESIZE), end = addr + len;
	int ret = 0;

	if (!len)
		return 0;
	if (end < addr)
		return -EFAULT;
	guard_enter();
	for (uintptr_t p = addr; p < end && !ret; p = (p & -page) + page) {
		ret = write ? touch_write((char *)p) : touch_read((const char *)p);
		if ((p & -page) + page < p)
			break; /* the last page there is */
	}
	return ret;
}

/* --- the handler ------------------------------------------------------------------ */

static void set_default(int sig)
{
	struct ksigaction dfl = {.handler = SIG_DFL};

	sys_sigaction(sig, &dfl, NULL);
}

/*
 * The default action. A fault happens again when the handler returns, now with the
 * default action and its own siginfo and registers for the core dump; a signal that
 * somebody sent is sent again.
 */
static void act_default(int sig, siginfo_t *info)
{
	uint64_t set = sigbit(sig);

	set_default(sig);
	if (info->si_code > 0)
		return;
	syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), sig, info);
	sys_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* The application's handler, under the mask that it asked for */
static void act_handler(int sig, const struct sigaction *act, siginfo_t *info, void *ctx)
{
	uint64_t mask;

	memcpy(&mask, &act->sa_mask, sizeof(mask));
	if (!(act->sa_flags & SA_NODEFER))
		mask |= sigbit(sig);
	sys_sigmask(SIG_BLOCK, &mask, NULL);
	/* It may leave by siglongjmp(), with the signal still blocked. */
	thread_ready = false;
	if (act->sa_flags & SA_SIGINFO)
		act->sa_sigaction(sig, info, ctx);
	else
		act->sa_handler(sig);
}

/* SA_RESETHAND: the default action from now on. Signals may be open here; block them. */
static void chain_reset(int sig)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	uint64_t old = chain_lock_blocked();

	chain_write(sig, &dfl);
	chain_unlock(old);
}

/*
 * A handler that was installed behind our back may have ours for the one before it, and
 * call it for what is not its own: then both would call each other for ever. That call
 * has the same siginfo as the one we made, and a frame below ours. (After a siglongjmp()
 * a later signal may have its siginfo at the same place, but its frame is not below.)
 */
static THREAD_LOCAL const siginfo_t *chained_info;
static THREAD_LOCAL char *chained_frame;

static bool came_back(const siginfo_t *info, char *frame_address)
{
	bool back = info == chained_info && frame_address < chained_frame;

	chained_info = info;
	chained_frame = frame_address;
	return back;
}

static void chain_on(int sig, siginfo_t *info, void *ctx)
{
	struct sigaction act;

	if (came_back(info, __builtin_frame_address(0))) {
		act_default(sig, info);
		return;
	}
	chain_read(sig, &act);
	if (!(act.sa_flags & SA_SIGINFO)) {
		/* A fault cannot be ignored: the kernel kills (force_sig_info). */
		if (act.sa_handler == SIG_IGN && info->si_code <= 0)
			return;
		if (act.sa_handler == SIG_DFL || act.sa_handler == SIG_IGN) {
			act_default(sig, info);
			return;
		}
	}
	if (act.sa_flags & SA_RESETHAND)
		chain_reset(sig);
	act_handler(sig, &act, info, ctx);
}

/* --- a file that is cut short ----------------------------------------------------- */

/* The handler looks at entries whose length is not 0. */
static struct {
	_Atomic(uintptr_t) start;
	_Atomic(size_t) len;
	_Atomic(const char *) message;
} files[GUARD_FILES];

void guard_file(void *map, size_t len, const char *message)
{
	for (size_t i = 0; i < GUARD_FILES; i++) {
		uintptr_t none = 0;

		if (!map) {
			files[i].len = 0;
			files[i].start = 0;
		} else if (atomic_compare_exchange_strong(&files[i].start, &none,
							  (uintptr_t)map)) {
			files[i].message = message;
			files[i].len = len;
			return;
		}
	}
}

/* Put zeroes in the place of the mapping that the address is in, if it is in one. */
static bool restore_file(const siginfo_t *info)
{
	const char *message;
	uintptr_t start = 0;
	size_t i = 0, len = 0;

	for (; i < GUARD_FILES; i++) {
		start = files[i].start;
		len = files[i].len;
		if ((uintptr_t)info->si_addr - start < len)
			break;
	}
	if (info->si_code != BUS_ADRERR || i == GUARD_FILES)
		return false;
	if (syscall(SYS_mmap, start, len, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != (long)start)
		return false;
	message = atomic_exchange(&files[i].message, NULL);
	if (message)
		syscall(SYS_write, STDERR_FILENO, message, strlen(message));
	return true;
}

/* A signal of this process to a thread that takes them; wherever it hits, it is ours. */
static __attribute__((no_sanitize("address", "thread", "undefined"))) bool
interrupt(const siginfo_t *info, void *ctx)
{
	if (!interruptible || info->si_code != SI_TKILL || info->si_pid != getpid())
		return false;
	interrupted = true;
#ifdef GUARD_SETJMP
	if (frame)
		siglongjmp(frame->env, 1);
#else
	guard_recover(ctx);
#endif
	return true;
}

static __attribute__((no_sanitize("address", "thread", "undefined"))) void
guard_handler(int sig, siginfo_t *info, void *ctx)
{
	int err = errno;

	/*
	 * A signal that somebody sent (si_code <= 0) is never a fault, wherever it hits.
	 */
	if (info->si_code > 0) {
#ifdef GUARD_SETJMP
		if (guard_recover_at(info))
			return;
#else
		if (guard_recover(ctx))
			return;
#endif
	} else if (sig == SIGSEGV && interrupt(info, ctx)) {
		return;
	}
	if (sig != SIGBUS || !restore_file(info))
		chain_on(sig, info, ctx);
	errno = err;
}

/* --- installation ----------------------------------------------------------------- */

static void to_user(const struct ksigaction *k, struct sigaction *u)
{
	memset(u, 0, sizeof(*u));
	u->sa_handler = k->handler;
	u->sa_flags = (int)k->flags & ~SA_RESTORER_FLAG;
	memcpy(&u->sa_mask, &k->mask, sizeof(k->mask));
}

/* Called with chain_lock held and signals blocked */
static int install(int sig)
{
	struct ksigaction ours =
			      {
				  .siginfo = guard_handler,
				  .flags =
				      SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART,
			      },
			  there;
	struct sigaction app;
	int ret = sys_sigaction(sig, NULL, &there);

	if (ret)
		return ret;
	if (there.siginfo == guard_handler)
		return 0;
	to_user(&there, &app);
	chain_write(sig, &app);
#if defined(__x86_64__)
	ours.flags |= SA_RESTORER_FLAG;
	ours.restorer = guard_restorer;
#endif
	return sys_sigaction(sig, &ours, NULL);
}

int guard_init(void)
{
	uint64_t old = chain_lock_blocked();
	int ret;

	if (!installed)
		choose_routines();
	ret = install(SIGSEGV);
	if (!ret)
		ret = install(SIGBUS);
	if (!ret)
		installed = true;
	chain_unlock(old);
	return ret;
}

/* Called while a sanitizer's runtime is being initialised, long before the guard is. */
__attribute__((no_sanitize("address", "thread", "undefined"))) int
guard_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction prev, next;
	uint64_t mask;

	if ((sig != SIGSEGV && sig != SIGBUS) || !installed)
		return 1;
	if (act)
		next = *act; /* it may be the same object as @old */
	mask = chain_lock_blocked();
	chain_read(sig, &prev);
	if (act)
		chain_write(sig, &next);
	chain_unlock(mask);
	if (old)
		*old = prev;
	return 0;
}

void guard_sigmask(sigset_t *set)
{
	if (!installed)
		return;
	sigdelset(set, SIGSEGV);
	sigdelset(set, SIGBUS);
}
