#include "core/role_features.hpp"

#include <algorithm>
#include <initializer_list>

namespace tagloom {
namespace {

constexpr uint64_t kNothing = 4;  // a number that no string has
// Kinds of candidates; an ancestor's is its distance.
enum Kind : int32_t {
    kOfPredicate = 0,
    kBeside = 1,
    kAbove = 2,
    kPart = 8,
    kOfAncestor = 16,
    kMerged = 32
};

uint64_t bin(int64_t n) { return n <= 4 ? n : n <= 7 ? 5 : n <= 12 ? 6 : n <= 20 ? 7 : 8; }

}  // namespace

void RoleFeatures::read(const RoleSentences& sentences, const RoleFrame& frame) {
    if (of_ != &sentences || sentence_ != frame.sentence) read_tree(sentences, frame.sentence);
    of_ = &sentences;
    sentence_ = frame.sentence;
    read_predicate(frame);
    find_candidates();
}

void RoleFeatures::read_tree(const RoleSentences& sentences, int64_t i) {
    T_ = sentences.length(i);
    words_ = sentences.atoms + sentences.offsets[i] * kRoleAtoms;
    heads_ = sentences.heads + sentences.offsets[i];
    child_ptr_.assign(T_ + 1, 0);
    for (int64_t t = 0; t < T_; ++t)
        if (heads_[t] > 0) ++child_ptr_[heads_[t]];
    for (int64_t t = 0; t < T_; ++t) child_ptr_[t + 1] += child_ptr_[t];
    children_.resize(T_);
    std::vector<int32_t> at(child_ptr_.begin(), child_ptr_.end() - 1);
    for (int32_t t = 0; t < T_; ++t)
        if (heads_[t] > 0) children_[at[heads_[t] - 1]++] = t;
    depth_.assign(T_, 0);
    std::vector<int32_t> order(T_);  // deepest last
    for (int32_t t = 0; t < T_; ++t) {
        order[t] = t;
        for (int32_t a = heads_[t]; a > 0; a = heads_[a - 1]) ++depth_[t];
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return depth_[a] < depth_[b]; });
    first_.resize(T_);
    last_.resize(T_);
    for (int32_t t = 0; t < T_; ++t) first_[t] = last_[t] = t;
    for (int64_t k = T_ - 1; k >= 0; --k) {
        const int32_t t = order[k], h = heads_[t] - 1;
        if (h < 0) continue;
        first_[h] = std::min(first_[h], first_[t]);
        last_[h] = std::max(last_[h], last_[t]);
    }
}

void RoleFeatures::read_predicate(const RoleFrame& frame) {
    p_ = frame.predicate;
    lemma_ = frame.lemma;
    roleset_ = frame.roleset;
    chain_.assign(1, int32_t(p_));
    while (heads_[chain_.back()] > 0) chain_.push_back(heads_[chain_.back()] - 1);
    is_passive_ = false;
    subcategories_ = arguments_ = 0;
    for (int64_t k = 0; k < n_children(p_); ++k) {
        const int64_t d = children(p_)[k];
        is_passive_ |= (flags(d) & kPassive) != 0;
        arguments_ |= flags(d) & (kSubject | kObject | kComplement);
        if (!(flags(d) & (kIsPunctuation | kAuxiliary | kCoordinates)))
            subcategories_ =
                feature_key({subcategories_, atom(d, kRoleRelation), uint64_t(d < p_)});
    }
}

// ---------------------------------------------------------------------------------------------
// Candidates

bool RoleFeatures::is_paired(int64_t t, int64_t start, int64_t end) const {
    const uint32_t own = flags(t);
    if (own & kQuotes) {
        for (int64_t i = start; i < end; ++i)
            if (i != t && atom(i, kRoleWord) == atom(t, kRoleWord)) return true;
        return false;
    }
    const uint32_t other = own & kOpens ? kCloses : own & kCloses ? kOpens : 0;
    for (int64_t i = start; other && i < end; ++i)
        if (flags(i) & other) return true;
    return false;
}

void RoleFeatures::add(int64_t start, int64_t end, int64_t head, int32_t kind) {
    while (start < end && (flags(start) & kIsPunctuation) && !is_paired(start, start, end)) ++start;
    while (start < end && (flags(end - 1) & kIsPunctuation) && !is_paired(end - 1, start, end))
        --end;
    if (start >= end || (start <= p_ && p_ < end)) return;
    for (const RoleSpan& one : candidates_)
        if (one.start == start && one.end == end) return;
    candidates_.push_back({int32_t(start), int32_t(end), int32_t(head), kind});
}

// Where the dependents of a that hang on loosely begin, after a and before end.
int64_t RoleFeatures::core_end(int64_t a, int64_t end) const {
    for (int64_t k = 0; k < n_children(a); ++k) {
        const int64_t d = children(a)[k];
        if (d > a && (flags(d) & (kCoordinates | kClausal)))
            return std::min<int64_t>(end, first_[d]);
    }
    return end;
}

void RoleFeatures::add_dependents(int64_t a, int64_t branch, int32_t kind) {
    for (int64_t k = 0; k < n_children(a); ++k) {
        const int64_t d = children(a)[k];
        if (d == branch) continue;
        const int64_t end = last_[d] + 1;
        add(first_[d], end, d, kind);
        add(first_[d], core_end(d, end), d, kind | kPart);
        if (kind == kOfPredicate) add(d, d + 1, d, kind | kPart);
    }
}

void RoleFeatures::add_ancestor(int64_t a, int64_t branch, int32_t kind) {
    const int64_t left = branch < a ? std::max<int64_t>(last_[branch], p_) + 1 : first_[a];
    const int64_t right = branch > a ? first_[branch] : last_[a] + 1;
    const int64_t ends[] = {right, core_end(a, right), a + 1};
    const auto add_from = [&](int64_t start, int32_t how) {
        for (int64_t end : ends)
            if (start <= a && a < end) {
                add(start, end, a, how);
                how |= kPart;
            }
    };
    add_from(left, kind);
    for (int64_t k = 0; k < n_children(a); ++k) {
        const int64_t d = children(a)[k];
        if (d >= a || d == branch || last_[d] + 1 <= left) continue;
        if (kind == (kOfAncestor | kBeside) || (flags(d) & kMarks))
            add_from(last_[d] + 1, kind | kPart);
    }
    add_from(a, kind | kPart);
}

void RoleFeatures::find_candidates() {
    candidates_.clear();
    add_dependents(p_, -1, kOfPredicate);
    for (int64_t k = 0; k + 1 < n_children(p_); ++k) {
        const int64_t a = children(p_)[k], b = children(p_)[k + 1];
        if (a > p_ && (flags(b) & kComplement)) add(first_[a], last_[b] + 1, b, kMerged);
    }
    for (size_t j = 1; j < chain_.size(); ++j) {
        const int32_t kind = j == 1 ? kBeside : kAbove;
        add_ancestor(chain_[j], chain_[j - 1], kOfAncestor | kind);
        add_dependents(chain_[j], chain_[j - 1], kind);
    }
    if (chain_.size() < 2) return;
    for (int64_t k = 0; k < n_children(chain_[1]); ++k) {
        const int64_t sibling = children(chain_[1])[k];
        for (int64_t n = 0; sibling != p_ && n < n_children(sibling); ++n) {
            const int64_t d = children(sibling)[n];
            add(first_[d], last_[d] + 1, d, kAbove + 1);
        }
    }
}

// ---------------------------------------------------------------------------------------------
// Features

// Relations (or tags) from t up to the common ancestor, and down to p.
uint64_t RoleFeatures::path_key(int64_t t, bool with_tags) const {
    const RoleAtom of = with_tags ? kRoleCoarse : kRoleRelation;
    uint64_t key = with_tags;
    int64_t up = t, down = p_;
    uint64_t falling = 1;
    while (up != down) {
        if (depth_[up] >= depth_[down]) {
            key = feature_key({key, atom(up, of), 1});
            up = heads_[up] - 1;
        } else {
            falling = feature_key({falling, atom(down, of), 2});
            down = heads_[down] - 1;
        }
    }
    return feature_key({key, falling, with_tags ? atom(up, of) : 0});
}

// The preposition or conjunction before the words of t.
uint64_t RoleFeatures::marker_of(int64_t t) const {
    for (int64_t k = 0; k < n_children(t); ++k)
        if (flags(children(t)[k]) & kMarks) return atom(children(t)[k], kRoleWord);
    return kNothing;
}

uint64_t RoleFeatures::context(const RoleSpan& span) const {
    return feature_key({7, atom(span.head, kRoleRelation), uint64_t(span.kind),
                        uint64_t(span.start > p_), atom(p_, kRoleCoarse)});
}

void RoleFeatures::features(const RoleSpan& span, std::vector<uint64_t>& out) const {
    out.clear();
    const auto add = [&](std::initializer_list<uint64_t> values) {
        out.push_back(feature_key(values));
    };
    const int64_t h = span.head, s = span.start, e = span.end - 1;
    const uint64_t right = s > p_, voice = is_passive_, kind = uint64_t(span.kind);
    const uint64_t path = path_key(h, false), tags = path_key(h, true), lemma = lemma_;
    const uint64_t relation = atom(h, kRoleRelation), word = atom(h, kRoleWord),
                   tag = atom(h, kRoleTag), suffix = atom(h, kRoleSuffix);
    const uint64_t first = atom(s, kRoleWord), last = atom(e, kRoleWord);
    const uint64_t marker = marker_of(h);
    const uint64_t predicate = atom(p_, kRoleTag), side = right * 2 + voice;
    const uint64_t distance = bin(right ? s - p_ : p_ - e);
    const uint64_t length = bin(e - s + 1);
    add({1});
    add({2, path});
    add({3, path, kind, side});
    add({4, path, lemma});
    add({5, path, lemma, side, kind});
    add({6, path, marker});
    add({7, path, predicate, kind});
    add({8, path, tag, side});
    add({9, path, word});
    add({10, path, subcategories_});
    add({11, path, subcategories_, lemma});
    add({12, path, arguments_, side});
    add({13, path, arguments_, lemma});
    add({14, tags, kind, side});
    add({15, tags, lemma});
    add({16, lemma, word});
    add({17, lemma, tag, side});
    add({18, lemma, relation, side});
    add({19, lemma, marker, relation});
    add({20, lemma, first});
    add({21, lemma});
    add({22, word});
    add({23, word, relation, right});
    add({24, word, marker});
    add({25, marker, relation, right});
    add({26, marker, tag});
    add({27, first, relation});
    add({28, first, kind, right});
    add({29, last});
    add({30, atom(s, kRoleTag), atom(e, kRoleTag), relation});
    add({31, atom(s, kRoleTag), atom(s - 1, kRoleTag), kind});
    add({32, atom(e, kRoleTag), atom(e + 1, kRoleTag), kind});
    add({33, atom(s - 1, kRoleWord), relation});
    add({34, atom(e + 1, kRoleWord), relation});
    add({35, first, atom(s + 1, kRoleWord), relation});
    add({36, relation, kind, side, length});
    add({37, relation, kind, side, distance});
    add({38, relation, kind, predicate});
    add({39, suffix, relation});
    add({40, suffix, tag, marker});
    add({41, atom(p_, kRoleSuffix), path});
    add({42, atom(p_, kRoleRelation), path, side});
    add({43, atom(p_, kRoleWord), relation, kind, side});
    add({44, atom(p_, kRoleCoarse), relation, side});
    add({45, arguments_, relation, side, tag});
    add({46, kind, length, distance});
    add({47, marker, atom(h + 1, kRoleTag), relation});
    add({48, atom(p_ + 1, kRoleWord), lemma, relation});
    add({49, atom(p_ - 1, kRoleTag), path, predicate});
    add({50, lemma, last});
    const uint64_t above = chain_.size() > 1 ? atom(chain_[1], kRoleWord) : kNothing;
    add({51, above, path});
    for (int64_t k = 0; k < n_children(h); ++k) {
        const int64_t d = children(h)[k];
        if (flags(d) & kIsPunctuation) continue;
        add({52, atom(d, kRoleRelation), relation, side});
        add({53, atom(d, kRoleWord), relation});
    }
    if (roleset_) {
        add({54, roleset_, path, side});
        add({55, roleset_, relation, marker, side});
        add({56, roleset_, tag, right});
        add({57, roleset_});
    }
}

}  // namespace tagloom
