// The emulator's runtime. The compiler reads it before the source of a kernel.
//
// Every thread of a threadgroup is a fiber with its own stack. A fiber runs
// until it reaches a collective or returns. The scheduler continues when all
// lanes of a SIMD group, or all threads at a barrier, have reached the same
// collective. If they have not, it reports the lines that they have reached.
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace gd {

const unsigned kLanes = 32, kMaxThreads = 1024, kMaxArrays = 32;
const size_t kStack = 64 << 10, kShared = 32 << 10, kZone = 256, kSlack = 1 << 20;
const unsigned char kPoison = 0xff, kRed = 0xa5; // floats of 0xff bytes are NaN

struct Indices { unsigned index, x, y, z; }; // indices of a thread, or of its threadgroup

enum State : unsigned char { kReady, kSimd, kBarrier, kDone };

// Site is the place where a fiber waits.
struct Site {
	const char *what, *file;
	int line;
	bool operator!=(const Site &o) const { return line != o.line || strcmp(what, o.what) || strcmp(file, o.file); }
};

struct Fiber {
	void *sp;
	State state;
	Site site;
	char op; // kind of a SIMD collective: + sum, > max, x shuffle, m or 8 matrix product
	unsigned bits, mask;
	void *c; // operands of a matrix product
	const void *a, *b;
	unsigned arrays; // number of shared arrays that it has declared
};

struct Array { size_t at, size; const char *name, *file; int line; };

// Run is a range of a launch's threadgroups. The Go side fills it in.
struct Run {
	void **args; // buffers, followed by the parameter struct
	unsigned grid[3];
	unsigned threads, order; // order of lanes: 0 is ascending, 1 is descending, others are shuffled
	uint64_t first, count;   // threadgroups
	char *error;             // 512 bytes
};

// Worker is the memory of one CPU thread.
struct Worker {
	Fiber fibers[kMaxThreads];
	unsigned short turn[kMaxThreads]; // order in which the threads of a SIMD group run
	Array arrays[kMaxArrays];
	unsigned declared;
	size_t used; // bytes of shared memory including guard zones; net excludes them
	size_t net;
	Fiber *current;
	void *home; // stack of the scheduler
	Run *run;
	Indices group;
	unsigned char *stacks, *shared;
};

static thread_local Worker *self;

extern "C" void gd_switch(void **save, void *to);
#if defined(__APPLE__)
#define GD_SYMBOL "_gd_switch"
#else
#define GD_SYMBOL "gd_switch"
#endif
#if defined(__x86_64__)
asm(".text\n.globl " GD_SYMBOL "\n" GD_SYMBOL ":\n"
	"pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
	"movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
	"popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
const unsigned kFrame = 8, kReturn = 6; // size of the frame in words, and index of the return address
#elif defined(__aarch64__)
asm(".text\n.globl " GD_SYMBOL "\n" GD_SYMBOL ":\n"
	"sub sp, sp, #160\n"
	"stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
	"stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
	"stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
	"mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
	"ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
	"ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
	"ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
	"add sp, sp, #160\nret\n");
const unsigned kFrame = 20, kReturn = 11;
#else
#error "the emulator knows how to switch stacks on x86-64 and arm64"
#endif

// park switches to the scheduler. It returns when the fiber runs again.
static inline void park(State s) {
	Worker *w = self;
	w->current->state = s;
	gd_switch(&w->current->sp, w->home);
}

// report records the first fault of a run. The scheduler then ends the run.
static void report(const char *format, ...) {
	Worker *w = self;
	if (w->run->error[0]) return;
	int n = snprintf(w->run->error, 512, "threadgroup %u,%u,%u: ", w->group.x, w->group.y, w->group.z);
	va_list list;
	va_start(list, format);
	vsnprintf(w->run->error + n, 512 - n, format, list);
	va_end(list);
}

// stop ends a fiber after a fault.
[[noreturn]] static void stop() {
	for (;;) park(kDone);
}

static inline unsigned wait_simd(char op, unsigned bits, unsigned mask, const char *what, const char *file, int line) {
	Fiber *f = self->current;
	f->op = op;
	f->bits = bits;
	f->mask = mask;
	f->site = Site{what, file, line};
	park(kSimd);
	return f->bits;
}

static inline void wait_barrier(const char *file, int line) {
	self->current->site = Site{"barrier", file, line};
	park(kBarrier);
}

static inline float as_float(unsigned u) { float f; memcpy(&f, &u, 4); return f; }
static inline unsigned as_uint(float f) { unsigned u; memcpy(&u, &f, 4); return u; }
static inline unsigned word(float f) { return as_uint(f); }
static inline unsigned word(unsigned u) { return u; }
template <class T> T unword(unsigned u);
template <> inline float unword<float>(unsigned u) { return as_float(u); }
template <> inline unsigned unword<unsigned>(unsigned u) { return u; }
template <class T> T shuffle(T v, unsigned mask, const char *file, int line) {
	return unword<T>(wait_simd('x', word(v), mask, "simd_shuffle_xor", file, line));
}

// shared returns the array that belongs to a declaration. The first thread
// makes it. The other threads must declare the same arrays in the same order.
static void *shared(size_t size, const char *name, const char *file, int line) {
	Worker *w = self;
	unsigned i = w->current->arrays++;
	if (i == kMaxArrays) {
		report("more than %u shared arrays at %s:%d", kMaxArrays, file, line);
		stop();
	}
	if (i == w->declared) {
		size_t room = (size + 15) / 16 * 16;
		w->net += room;
		if (w->net > kShared) {
			report("%zu bytes of shared memory with %s at %s:%d, %zu are allowed", w->net, name, file, line, kShared);
			stop();
		}
		w->arrays[w->declared++] = Array{w->used, size, name, file, line};
		memset(w->shared + w->used, kPoison, size);
		memset(w->shared + w->used + size, kRed, room - size + kZone);
		w->used += room + kZone;
	}
	Array &a = w->arrays[i];
	if (a.line != line || strcmp(a.file, file)) {
		report("threads declare different shared memory at %s:%d and %s:%d", a.file, a.line, file, line);
		stop();
	}
	return w->shared + a.at;
}

static float half(const unsigned *words, unsigned i);

// multiply computes a matrix product. The lanes hold the elements as dialect.h
// describes.
static void multiply(Fiber *f) {
	for (unsigned row = 0; row < 16; row++)
		for (unsigned col = 0; col < 8; col++) {
			float sum = 0;
			for (unsigned k = 0; k < 16; k++) {
				const Fiber &x = f[row % 8 * 4 + k % 8 / 2], &y = f[col * 4 + k % 8 / 2];
				sum += half((const unsigned *)x.a, (row / 8 + k / 8 * 2) * 2 + k % 2) * half((const unsigned *)y.b, k / 8 * 2 + k % 2);
			}
			((float *)f[row % 8 * 4 + col / 2].c)[row / 8 * 2 + col % 2] += sum;
		}
}

static inline void product(char op, void *c, const void *a, const void *b, const char *what, const char *file, int line) {
	Fiber *f = self->current;
	f->c = c;
	f->a = a;
	f->b = b;
	wait_simd(op, 0, 0, what, file, line);
}

// Matrix is the part of a matrix8 that one lane holds, which is two values of a
// row.
struct Matrix { float v[2]; };

static float &element(Matrix *const m[kLanes], unsigned row, unsigned col) { return m[row * 4 + col / 2]->v[col % 2]; }

// multiply8 computes the product of matrices of 8 by 8.
static void multiply8(Fiber *f) {
	Matrix *a[kLanes], *b[kLanes], *c[kLanes];
	for (unsigned i = 0; i < kLanes; i++) {
		a[i] = (Matrix *)f[i].a;
		b[i] = (Matrix *)f[i].b;
		c[i] = (Matrix *)f[i].c;
	}
	for (unsigned row = 0; row < 8; row++)
		for (unsigned col = 0; col < 8; col++)
			for (unsigned k = 0; k < 8; k++) element(c, row, col) = fmaf(element(a, row, k), element(b, k, col), element(c, row, col));
}

// load and store are collectives in which each lane moves its own values.
static inline void load(Matrix &m, const float *from, unsigned row, unsigned col, const char *what, const char *file, int line) {
	unsigned i = unsigned(self->current - self->fibers) % kLanes;
	for (unsigned n = 0; n < 2; n++) m.v[n] = from[i / 4 * row + (i % 4 * 2 + n) * col];
	wait_simd('x', 0, 0, what, file, line);
}
static inline void store(const Matrix &m, float *to, unsigned stride, const char *file, int line) {
	unsigned i = unsigned(self->current - self->fibers) % kLanes;
	for (unsigned n = 0; n < 2; n++) to[i / 4 * stride + i % 4 * 2 + n] = m.v[n];
	wait_simd('x', 0, 0, "matrix_store", file, line);
}

// combine computes a collective that all lanes of a SIMD group have reached.
static void combine(Fiber *f) {
	if (f[0].op == 'm' || f[0].op == '8') {
		if (f[0].op == 'm') multiply(f);
		else multiply8(f);
		return;
	}
	unsigned in[kLanes];
	for (unsigned i = 0; i < kLanes; i++) in[i] = f[i].bits;
	if (f[0].op == 'x') {
		for (unsigned i = 0; i < kLanes; i++) f[i].bits = in[(i ^ f[i].mask) % kLanes];
		return;
	}
	for (unsigned m = kLanes / 2; m > 0; m /= 2) {
		unsigned next[kLanes];
		for (unsigned i = 0; i < kLanes; i++) {
			float a = as_float(in[i]), b = as_float(in[i ^ m]);
			next[i] = as_uint(f[0].op == '+' ? a + b : fmaxf(a, b));
		}
		memcpy(in, next, sizeof in);
	}
	for (unsigned i = 0; i < kLanes; i++) f[i].bits = in[i];
}

// differ reports that two threads have reached different places.
static void differ(unsigned a, unsigned b) {
	Fiber *f = self->fibers;
	if (f[a].state == kDone) { unsigned t = a; a = b; b = t; }
	const char *here = f[a].site.what;
	if (f[b].state == kDone)
		report("thread %u is at %s, %s:%d, and thread %u has returned", a, here, f[a].site.file, f[a].site.line, b);
	report("thread %u is at %s, %s:%d, and thread %u at %s, %s:%d", a, here, f[a].site.file, f[a].site.line, b,
		f[b].site.what, f[b].site.file, f[b].site.line);
}

// same checks that count fibers, starting with first, have reached the same
// place.
static void same(unsigned first, unsigned count) {
	Fiber *f = self->fibers;
	for (unsigned i = first + 1; i < first + count; i++)
		if (f[i].state != f[first].state || (f[i].state != kDone && f[i].site != f[first].site)) differ(first, i);
}

// advance runs a SIMD group until all its lanes have returned or reached a
// barrier.
static void advance(unsigned first) {
	Worker *w = self;
	for (;;) {
		for (unsigned i = 0; i < kLanes; i++) {
			Fiber *f = &w->fibers[first + w->turn[first + i]];
			if (f->state != kReady) continue;
			w->current = f;
			gd_switch(&w->home, f->sp);
			if (w->run->error[0]) return;
		}
		same(first, kLanes);
		if (w->run->error[0] || w->fibers[first].state != kSimd) return;
		combine(&w->fibers[first]);
		for (unsigned i = 0; i < kLanes; i++) w->fibers[first + i].state = kReady;
	}
}

} // namespace gd
static void gd_begin(); // entry point of a fiber
namespace gd {

static void prepare(Worker *w) {
	Run *r = w->run;
	uint32_t seed = r->order * 2654435761u + w->group.x * 40503u + w->group.y * 69069u + 12345u;
	for (unsigned i = 0; i < r->threads; i++) {
		Fiber *f = &w->fibers[i];
		void **top = (void **)(w->stacks + (i + 1) * kStack) - kFrame - 8;
		top[kReturn] = (void *)gd_begin;
		f->sp = top;
		f->state = kReady;
		f->arrays = 0;
		unsigned n = i % kLanes;
		w->turn[i] = (unsigned short)(r->order == 1 ? kLanes - 1 - n : n);
		if (r->order > 1 && n > 0) { // Fisher-Yates shuffle, from the front
			seed = seed * 1664525u + 1013904223u;
			unsigned j = (seed >> 8) % (n + 1), at = i - n;
			w->turn[i] = w->turn[at + j];
			w->turn[at + j] = (unsigned short)n;
		}
	}
	w->declared = 0;
	w->net = 0;
	w->used = kSlack;
	memset(w->shared + w->used, kRed, kZone);
	w->used += kZone;
}

// zones checks the guard bytes around the shared arrays.
static void zones(Worker *w) {
	for (unsigned i = 0; i < w->declared; i++) {
		Array &a = w->arrays[i];
		for (size_t b = 0; b < kZone; b++) {
			if (w->shared[a.at + a.size + b] != kRed) report("a write past the end of %s, %s:%d", a.name, a.file, a.line);
			if (w->shared[a.at - kZone + b] != kRed) report("a write before the start of %s, %s:%d", a.name, a.file, a.line);
		}
	}
}

static void one_group(Worker *w) {
	prepare(w);
	Run *r = w->run;
	unsigned groups = r->threads / kLanes;
	for (;;) {
		for (unsigned i = 0; i < groups; i++) {
			advance((r->order % 2 ? groups - 1 - i : i) * kLanes);
			if (r->error[0]) return;
		}
		same(0, r->threads);
		if (r->error[0]) return;
		if (w->fibers[0].state == kDone) break;
		for (unsigned i = 0; i < r->threads; i++) w->fibers[i].state = kReady;
	}
	zones(w);
}

template <class T> struct Pick { static T of(void *p) { return (T)p; } };
template <class T> struct Pick<const T &> { static const T &of(void *p) { return *(const T *)p; } };
template <> struct Pick<Indices> { static Indices of(void *p) { return *(Indices *)p; } };
template <unsigned... I> struct List {};
template <unsigned N, unsigned... I> struct Count : Count<N - 1, N - 1, I...> {};
template <unsigned... I> struct Count<0, I...> { typedef List<I...> type; };
template <class... A, unsigned... I> inline void call(void (*f)(A...), void **args, List<I...>) { f(Pick<A>::of(args[I])...); }
template <class... A> inline void call(void (*f)(A...), Worker *w) {
	void *args[sizeof...(A)];
	for (unsigned i = 0; i + 1 < sizeof...(A); i++) args[i] = w->run->args[i];
	Indices at = w->group;
	at.index = unsigned(w->current - w->fibers);
	args[sizeof...(A) - 1] = &at;
	call(f, args, typename Count<sizeof...(A)>::type());
}

} // namespace gd

// gd_new makes a worker that every kernel's library can use.
extern "C" __attribute__((visibility("default"))) void *gd_new() {
	gd::Worker *w = (gd::Worker *)calloc(1, sizeof(gd::Worker));
	size_t stacks = gd::kMaxThreads * gd::kStack, shared = 2 * gd::kSlack + gd::kShared + (gd::kMaxArrays + 2) * gd::kZone;
	void *p = mmap(0, stacks + shared, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
	if (!w || p == MAP_FAILED) return 0;
	w->stacks = (unsigned char *)p;
	w->shared = w->stacks + stacks;
	return w;
}

// gd_run runs a range of a launch. After a fault, run->error is set.
extern "C" __attribute__((visibility("default"))) void gd_run(void *worker, void *what);

#define GODWIT_ENTRY(kernel) \
	static void gd_begin() { \
		gd::call(kernel, gd::self); \
		gd::stop(); \
	} \
	extern "C" void gd_run(void *worker, void *what) { \
		gd::Worker *w = (gd::Worker *)worker; \
		gd::Run *r = (gd::Run *)what; \
		gd::self = w; \
		w->run = r; \
		for (uint64_t i = 0; i < r->count && !r->error[0]; i++) { \
			uint64_t at = r->first + (r->order % 2 ? r->count - 1 - i : i); \
			w->group.x = unsigned(at % r->grid[0]); \
			w->group.y = unsigned(at / r->grid[0] % r->grid[1]); \
			w->group.z = unsigned(at / r->grid[0] / r->grid[1]); \
			gd::one_group(w); \
		} \
	}

// The names of the dialect.
#define KERNEL(name) static void name
#define SHARED(T, name, n) T *const name = (T *)gd::shared(sizeof(T) * (n), #name, __FILE__, __LINE__)
#define barrier() gd::wait_barrier(__FILE__, __LINE__)
#define simd_sum(v) gd::as_float(gd::wait_simd('+', gd::as_uint(v), 0, "simd_sum", __FILE__, __LINE__))
#define simd_max(v) gd::as_float(gd::wait_simd('>', gd::as_uint(v), 0, "simd_max", __FILE__, __LINE__))
#define simd_shuffle_xor(v, m) gd::shuffle(v, m, __FILE__, __LINE__)
#define mma(c, a, b) gd::product('m', c, a, b, "mma", __FILE__, __LINE__)
#define matrix8 gd::Matrix
#define matrix_clear(m) ((m) = gd::Matrix{{0, 0}})
#define matrix_load(m, from, stride) gd::load(m, from, stride, 1, "matrix_load", __FILE__, __LINE__)
#define matrix_load_turned(m, from, stride) gd::load(m, from, 1, stride, "matrix_load_turned", __FILE__, __LINE__)
#define matrix_store(m, to, stride) gd::store(m, to, stride, __FILE__, __LINE__)
#define matrix_multiply(c, a, b) gd::product('8', &(c), &(a), &(b), "matrix_multiply", __FILE__, __LINE__)
#define thread_x gd_at.index
#define group_x gd_at.x
#define group_y gd_at.y
#define group_z gd_at.z

using gd::as_float;
using gd::as_uint;
static inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline float gd_exp(float v) { return expf(v); }
static inline float gd_log(float v) { return logf(v); }
static inline float gd_tanh(float v) { return tanhf(v); }
static inline float gd_sqrt(float v) { return sqrtf(v); }
static inline float gd_fabs(float v) { return fabsf(v); }
static inline float gd_floor(float v) { return floorf(v); }
static inline float gd_round(float v) { return roundf(v); }
static inline float gd_atan2(float y, float x) { return atan2f(y, x); }
static inline float gd_fma(float a, float b, float c) { return fmaf(a, b, c); }
#define exp gd_exp
#define log gd_log
#define tanh gd_tanh
#define sqrt gd_sqrt
#define fabs gd_fabs
#define floor gd_floor
#define round gd_round
#define atan2 gd_atan2
#define fma gd_fma

static inline unsigned atomic_add(unsigned *p, unsigned v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }

// half_to_float widens a binary16. A multiplication adjusts the exponent, which
// also handles subnormals.
static inline float half_to_float(unsigned short h) {
	float v = as_float((h & 0x7fffu) << 13) * 0x1p112f;
	if ((h & 0x7c00u) == 0x7c00u) v = as_float(0x7f800000u | (h & 0x3ffu) << 13);
	return as_float(as_uint(v) | (h & 0x8000u) << 16);
}

// float_to_half rounds to nearest, ties to even. For subnormal halves, it adds
// a power of two, so that the processor rounds at the last bit of the half.
static inline unsigned short float_to_half(float v) {
	unsigned u = as_uint(v), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
	if (a > 0x7f800000u) return (unsigned short)(sign | 0x7e00u);
	if (a >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);
	if (a < 0x38800000u) return (unsigned short)(sign | (as_uint(as_float(a) + 0.5f) - 0x3f000000u));
	return (unsigned short)(sign | (a + 0xfffu + (a >> 13 & 1u) - 0x38000000u) >> 13);
}

float gd::half(const unsigned *words, unsigned i) { return half_to_float((unsigned short)(words[i / 2] >> i % 2 * 16)); }
