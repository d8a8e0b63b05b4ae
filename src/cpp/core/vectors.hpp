// Vectors of TL_VECTOR_BYTES bytes and the few operations that the kernels need, written with the
// vector extensions that GCC and clang share. Included by the *_kernels.cpp files only, and free of
// the standard library: an inline function of `std::` compiled for a wide instruction set could
// otherwise be the copy that the linker keeps for old machines.
#pragma once

namespace {

template <class R>
struct Types;
template <>
struct Types<float> {
    using Vector = float __attribute__((vector_size(TL_VECTOR_BYTES)));
    using Bits = int __attribute__((vector_size(TL_VECTOR_BYTES)));
    using Word = unsigned __attribute__((vector_size(TL_VECTOR_BYTES)));  // may wrap round
    static constexpr int mantissa = 23, bias = 127;
    static constexpr float magic =
        0x1.8p23f;                           // adding it rounds to an integer, kept in the low bits
    static constexpr float lowest = -86.5f;  // below this, exp is a true zero
    static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
    // exp(r) = sum of series[k] r^k on [-ln2/2, ln2/2], chosen so that the largest relative error,
    // 1.9e-9, is as small as can be (Remez).
    static constexpr int degree = 6;
    static constexpr float series[degree + 1] = {
        1.0000000005546062542f,   1.0000000363446398041f,   0.49999992075100982844f,
        0.16666420072445139393f,  0.041668226188472839339f, 0.0083748240306628079596f,
        0.0013836835744798385406f};
};
template <>
struct Types<double> {
    using Vector = double __attribute__((vector_size(TL_VECTOR_BYTES)));
    using Bits = long long __attribute__((vector_size(TL_VECTOR_BYTES)));
    using Word = unsigned long long __attribute__((vector_size(TL_VECTOR_BYTES)));
    static constexpr int mantissa = 52, bias = 1023;
    static constexpr double magic = 0x1.8p52;
    static constexpr double lowest = -708.0;
    static constexpr double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;
    static constexpr int degree = 10;  // error 2.1e-16
    static constexpr double series[degree + 1] = {
        1.0000000000000000661,    1.000000000000006449,      0.49999999999997284366,
        0.16666666666557655215,   0.04166666666842738632,    0.0083333333846962410949,
        0.0013888888498912757054, 0.00019841171345220724687, 0.00002480191781217470881,
        2.7639784614008757502e-6, 2.748843242522173174e-7};
};

template <>
struct Types<int32_t> {
    using Vector = int32_t __attribute__((vector_size(TL_VECTOR_BYTES)));
};

template <class R>
using Vector = typename Types<R>::Vector;
template <class R>
using Bits = typename Types<R>::Bits;

// Loads and stores need no alignment: the arrays may be the caller's.
template <class R>
inline Vector<R> load(const R* p) {
    Vector<R> v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
template <class R>
inline void store(R* p, Vector<R> v) {
    __builtin_memcpy(p, &v, sizeof v);
}
// x in every lane. Written so that no addition is left: x - 0 is x, while 0 + x is not for x = -0.
template <class R>
inline Vector<R> broadcast(R x) {
    return x - Vector<R>{};
}
template <class V>
inline V max(V a, V b) {
    return a > b ? a : b;
}
template <class To, class From>
inline To cast_bits(From v) {
    To out;
    static_assert(sizeof out == sizeof v);
    __builtin_memcpy(&out, &v, sizeof v);
    return out;
}

// exp(x) for x <= 0 of N vectors, in place, to about one unit in the last place. Values below
// Types::lowest, -inf among them, give a true zero, so that a forbidden transition never leaks
// probability. The vectors go through the series side by side: they share its constants, and none
// waits for its own last product.
template <class R, int N>
inline void exp_each(Vector<R> (&x)[N]) {
    using K = Types<R>;
    using Word = typename K::Word;
    Vector<R> shifted[N], r[N], p[N];
    for (int i = 0; i < N; ++i) {
        shifted[i] = x[i] * R(1.44269504088896340736) + K::magic;
        const Vector<R> n = shifted[i] - K::magic;
        r[i] = x[i] - n * K::ln2_high - n * K::ln2_low;
    }
    for (int i = 0; i < N; ++i) p[i] = broadcast<R>(K::series[K::degree]);
    for (int k = K::degree - 1; k >= 0; --k)
        for (int i = 0; i < N; ++i) p[i] = p[i] * r[i] + broadcast<R>(K::series[k]);
    for (int i = 0; i < N; ++i) {
        const Word scaled = cast_bits<Word>(p[i]) + (cast_bits<Word>(shifted[i]) << K::mantissa);
        x[i] = x[i] < K::lowest ? Vector<R>{} : cast_bits<Vector<R>>(scaled);
    }
}
template <class R>
inline Vector<R> exp(Vector<R> x) {
    Vector<R> one[1] = {x};
    exp_each<R>(one);
    return one[0];
}

// log(x) for x > 0, to about one unit in the last place, after fdlibm: x = 2^e m with m between the
// roots of 1/2 and of 2, and log m from a series in s = (m - 1) / (m + 1). Some finite number for
// 0.
inline Vector<double> log_each(Vector<double> x) {
    using V = Vector<double>;
    using I = Bits<double>;
    constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    constexpr double series[7] = {6.666666666666735130e-01, 3.999999999940941908e-01,
                                  2.857142874366239149e-01, 2.222219843214978396e-01,
                                  1.818357216161805012e-01, 1.531383769920937332e-01,
                                  1.479819860511658591e-01};
    constexpr long long root_half = 0x3fe6a09e667f3bcd;  // the bits of it
    const I subnormal = x < 0x1p-1022;
    x = subnormal ? x * 0x1p54 : x;
    const I bits = cast_bits<I>(x), e = (bits - root_half) >> 52;
    const V k = __builtin_convertvector(subnormal ? e - 54 : e, V);
    const V f = cast_bits<V>(bits - (e << 52)) - 1.0;
    const V s = f / (f + 2.0), z = s * s, half = 0.5 * f * f;
    V r = broadcast<double>(series[6]);
    for (int i = 5; i >= 0; --i) r = r * z + series[i];
    return k * ln2_high - ((half - (s * (half + r * z) + k * ln2_low)) - f);
}

// The powers of two that scale positive, normal v into [1, 2): v * power = m, with log2(power) =
// -e.
template <class R>
inline Vector<R> scale_of(Vector<R> v, Bits<R>& e) {
    using K = Types<R>;
    Bits<R> exponent = (cast_bits<Bits<R>>(v) >> K::mantissa);
    e = exponent - K::bias;
    Bits<R> inverse = 2 * K::bias - exponent;
    return cast_bits<Vector<R>>(inverse << K::mantissa);
}

}  // namespace
