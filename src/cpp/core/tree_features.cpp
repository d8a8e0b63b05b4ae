#include "core/tree_features.hpp"

#include <algorithm>
#include <initializer_list>

#include "core/hashed_weights.hpp"

namespace tagloom {
namespace {

constexpr uint32_t kRoot = 1, kStart = 2, kStop = 3, kNobody = 4;  // atoms that no string has

// What each template takes of a word with tags p and c as head, as dependent and as sibling; {}
// takes nothing. Those with an even number are combined with the direction, others with the
// distance between the siblings.
void read_sibling_parts(uint64_t w, uint64_t p, uint64_t c, uint64_t* parts) {
    constexpr int64_t K = ParserFeatures::kSiblingTemplates;
    uint64_t k = 0;
    using Values = std::initializer_list<uint64_t>;
    const auto add = [&](Values of_head, Values of_dependent, Values of_sibling) {
        parts[k] = feature_key({3 * k + 300, feature_key(of_head)});
        parts[K + k] = feature_key({3 * k + 301, feature_key(of_dependent)});
        parts[2 * K + k] = feature_key({3 * k + 302, feature_key(of_sibling)});
        ++k;
    };
    add({p}, {p}, {p});
    add({p}, {p}, {p});
    add({}, {p}, {p});
    add({}, {p}, {p});
    add({w}, {p}, {p});
    add({c}, {c}, {c});
    add({}, {w}, {w});
    add({}, {p}, {w});
    add({p}, {w}, {p});
    add({}, {w}, {p});
}

}  // namespace

void ParserFeatures::read(const ParserSentences& sentences, int64_t i) {
    T_ = sentences.length(i);
    const uint32_t* words = sentences.atoms + sentences.offsets[i] * kParserAtoms;
    atoms_.resize((T_ + 4) * kParserAtoms);
    for (int64_t t = -1; t < T_ + 3; ++t)
        for (int64_t a = 0; a < kParserAtoms; ++a)
            atoms_[(t + 1) * kParserAtoms + a] = t < 0     ? kStart
                                                 : t == 0  ? kRoot
                                                 : t <= T_ ? words[(t - 1) * kParserAtoms + a]
                                                           : kStop;
    for (int64_t t : {int64_t(-1), int64_t(0), T_ + 1, T_ + 2})
        atoms_[(t + 1) * kParserAtoms + kClass] = kOther;

    as_head_.resize((T_ + 1) * kTemplates);
    as_dependent_.resize((T_ + 1) * kTemplates);
    sibling_parts_.resize((T_ + 2) * 3 * kSiblingTemplates);
    read_sibling_parts(kNobody, kNobody, kNobody,
                       &sibling_parts_[(T_ + 1) * 3 * kSiblingTemplates]);
    between_.resize((T_ + 1) * 3);
    previous_.assign(T_ + 1, 0);
    before_.assign((T_ + 2) * 4, 0);
    for (int64_t n = 0; n <= T_; ++n) {
        const uint64_t w = atom(n, kWord), p = atom(n, kTag), c = atom(n, kCoarse),
                       s = atom(n, kSuffix), x = atom(n, kShape);
        const uint64_t pl = n > 0 ? atom(n - 1, kTag) : kStart, pr = atom(n + 1, kTag);
        const uint64_t pll = n > 1 ? atom(n - 2, kTag) : kStart,
                       prr = n < T_ ? atom(n + 2, kTag) : kStop;
        const uint64_t wl = n > 0 ? atom(n - 1, kWord) : kStart, wr = atom(n + 1, kWord);
        // What each template takes of a head, and what of a dependent; {k} alone takes nothing.
        uint64_t* h = as_head_.data() + n * kTemplates;
        uint64_t* d = as_dependent_.data() + n * kTemplates;
        uint64_t k = 0;
        const auto add = [&](std::initializer_list<uint64_t> of_head,
                             std::initializer_list<uint64_t> of_dependent) {
            h[k] = feature_key({2 * k + 100, feature_key(of_head)});
            d[k] = feature_key({2 * k + 101, feature_key(of_dependent)});
            ++k;
        };
        add({w, p}, {});
        add({w}, {});
        add({p}, {});
        add({c, x}, {});
        add({pl, p, pr}, {});
        add({}, {w, p});
        add({}, {w});
        add({}, {p});
        add({}, {pl, p, pr});
        add({}, {w, pl, pr});
        add({}, {pll, pl, p});
        add({}, {p, pr, prr});
        add({w, p}, {w, p});
        add({p}, {w, p});
        add({w}, {w, p});
        add({w, p}, {p});
        add({w, p}, {w});
        add({w}, {w});
        add({p}, {p});
        add({c}, {c, x});
        add({c}, {w});
        add({w}, {c});
        add({s}, {s});
        add({s, p}, {p});
        add({p}, {s, p});
        add({p, pr}, {pl, p});
        add({pl, p}, {pl, p});
        add({p, pr}, {p, pr});
        add({pl, p}, {p, pr});
        add({pl, p, pr}, {p});
        add({p}, {pl, p, pr});
        add({p}, {wl, p});
        add({p}, {p, wr});
        add({w}, {pl, p, pr});

        uint64_t* parts = sibling_parts_.data() + n * 3 * kSiblingTemplates;
        read_sibling_parts(w, p, c, parts);

        between_[n * 3] = feature_key({11, p});
        between_[n * 3 + 1] = feature_key({12, p});
        between_[n * 3 + 2] = feature_key({13, p});
        for (int64_t b = n - 1; b > 0; --b)
            if (atom(b, kTag) == p) {
                previous_[n] = int32_t(b);
                break;
            }
        for (int64_t a = 0; a < 4; ++a) before_[(n + 1) * 4 + a] = before_[n * 4 + a];
        before_[(n + 1) * 4 + std::min<uint64_t>(atom(n, kClass), 3)]++;
    }
}

ParserFeatures::Ways ParserFeatures::ways(int64_t h, int64_t d) {
    // Distances 1 to 5, then 6 to 10, and more.
    struct Table {
        Ways of[2][7];
        Table() {
            for (uint64_t right = 0; right < 2; ++right)
                for (uint64_t bin = 0; bin < 7; ++bin)
                    of[right][bin] = {feature_key({1, right}), feature_key({2, right, bin})};
        }
    };
    static const Table table;
    const int64_t distance = h < d ? d - h : h - d;
    return table.of[h < d][distance <= 5 ? distance - 1 : distance <= 10 ? 5 : 6];
}

uint64_t ParserFeatures::counts_between(int64_t l, int64_t r) const {
    uint64_t n[4];
    for (int64_t a = 1; a < 4; ++a)
        n[a] = std::min<uint64_t>(before_[r * 4 + a] - before_[(l + 1) * 4 + a], 3);
    return feature_key({3, n[1], n[2], n[3]});
}

void ParserFeatures::score(const float* theta, int64_t H, double* arcs) const {
    for (int64_t d = 1; d <= T_; ++d)
        for (int64_t h = 0; h <= T_; ++h) {
            float sum = 0;
            if (h != d) for_each_of_arc(h, d, [&](uint64_t weight) { sum += theta[weight]; });
            arcs[(d - 1) * H + h] = sum;
        }
}

void ParserFeatures::score_siblings(const float* theta, int64_t H, bool single_root,
                                    double* siblings) const {
    for (int64_t d = 1; d <= T_; ++d)
        for (int64_t h = 0; h <= T_; ++h) {
            if (h == d) continue;
            double* scores = siblings + ((d - 1) * H + h) * H;
            for_each_sibling(h, d, single_root, [&](int64_t s) {
                float sum = 0;
                for_each_of_sibling(h, d, s, [&](uint64_t weight) { sum += theta[weight]; });
                scores[s] = sum;
            });
        }
}

// ---------------------------------------------------------------------------------------------
// Labels

uint64_t ParserFeatures::label_context(int64_t h, int64_t d) const {
    return feature_key({7, atom(h, kCoarse), atom(d, kCoarse), uint64_t(h < d)});
}

void ParserFeatures::of_arc_label(int64_t h, int64_t d, std::vector<uint64_t>& out) const {
    // Templates of `read` whose values also help to choose a label.
    static constexpr int kWithDirection[] = {1,  5,  8,  12, 13, 15, 17, 18, 19,
                                             20, 21, 23, 24, 25, 29, 30, 31, 32};
    static constexpr int kWithDistance[] = {7, 15, 18};
    const Ways way = ways(h, d);
    const uint64_t* head = as_head_.data() + h * kTemplates;
    const uint64_t* dependent = as_dependent_.data() + d * kTemplates;
    out.clear();
    for (int k : kWithDirection) out.push_back(head[k] + dependent[k] + way.direction);
    for (int k : kWithDistance) out.push_back(head[k] + dependent[k] + way.distance);
}

void ParserFeatures::of_label(int64_t d, const int32_t* heads, std::vector<uint64_t>& out) const {
    out.clear();
    const int64_t h = heads[d - 1];
    const uint64_t right = h < d;
    const int64_t distance = std::min<int64_t>(right ? d - h : h - d, 6);
    const auto w = [&](int64_t i) { return atom(i, kWord); };
    const auto p = [&](int64_t i) { return atom(i, kTag); };
    const auto c = [&](int64_t i) { return atom(i, kCoarse); };
    const auto add = [&](std::initializer_list<uint64_t> values) {
        out.push_back(feature_key(values));
    };
    const uint64_t hw = w(h), hp = p(h), hc = c(h), dw = w(d), dp = p(d), dc = c(d);
    const uint64_t hl = h > 0 ? p(h - 1) : kStart;
    add({200, dp, hp, right});
    add({201, dw, dp, right});
    add({202, dw, hp, right});
    add({203, dp, hw, right});
    add({204, dw, hw});
    add({205, dw, dp, hw, hp});
    add({206, dc, hc, right, uint64_t(distance)});
    add({207, dp, hp, right, uint64_t(distance)});
    add({208, atom(d, kSuffix), dp, hp, right});
    add({209, dp, atom(h, kSuffix), hp, right});
    add({210, atom(d, kShape), dp, hp, right});
    add({211, p(d - 1), dp, hp, right});
    add({212, dp, p(d + 1), hp, right});
    add({213, p(d - 1), dp, p(d + 1), right});
    add({214, hl, hp, dp, right});
    add({215, hp, p(h + 1), dp, right});
    add({216, w(d - 1), dp, right});
    add({217, w(d + 1), dp, right});
    add({218, dw, hc, right});
    add({219, hw, dc, right});
    add({220, hw, right});
    // The tree around: the head of the head, children of d, siblings next to d.
    const int64_t g = h > 0 ? heads[h - 1] : -1;
    add({221, g >= 0 ? p(g) : kStart, hp, dp, right});
    add({222, g >= 0 ? w(g) : kStart, hp, dp});
    uint64_t n_children = 0, inner = kStart, inner_word = kStart, outer = kStop;
    for (int64_t t = 1; t <= T_; ++t) {
        if (heads[t - 1] == d) {
            ++n_children;
            add({223, p(t), dp, hp, right, uint64_t(t < d)});
            add({224, w(t), dp, hc, right});
            add({225, w(t), c(t), dc});
        } else if (heads[t - 1] == h && t != d && (t < h) == (d < h)) {
            const bool is_inner = right ? t < d : t > d;
            if (is_inner && (right || inner == kStart)) {
                inner = p(t);
                inner_word = w(t);
            }
            if (!is_inner && (!right || outer == kStop)) outer = p(t);
            add({226, c(t), dc, hc, right, uint64_t(is_inner)});
        } else if (heads[t - 1] == h && t != d) {
            add({227, c(t), dc, hc, right});
        }
    }
    add({228, inner, dp, hp, right});
    add({229, inner_word, dp, hw, right});
    add({230, outer, dp, hp, right});
    add({231, std::min<uint64_t>(n_children, 3), dp, hp, right});
    add({232, counts_between(std::min(h, d), std::max(h, d)), dp, hp, right});
    add({233, dp, right, h == 0});
}

}  // namespace tagloom
