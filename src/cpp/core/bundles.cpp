#include "core/bundles.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

#include "core/hash.hpp"
#include "core/linear.hpp"

namespace tagloom {
namespace {

// The sum over the tokens of an attribute of 128 bits that look random for each token and value:
// two attributes with different tokens have the same one with probability 2^-128.
struct Occurrences {
    int32_t first = -1;  // token
    uint64_t low = 0, high = 0;

    void add(int64_t t, float value) {
        const uint64_t here =
            scramble(static_cast<uint64_t>(t) + 1) + std::bit_cast<uint32_t>(value);
        if (first < 0) first = static_cast<int32_t>(t);
        low += scramble(here);
        high += scramble(here ^ kGolden);
    }
    auto tied() const { return std::tie(low, high); }
};

// What an attribute implies is judged from its uses number kFirstUse to kLeastUses; a token then
// only lists groups that are whole there. Rarer attributes have no group, which would cost more
// memory than it saves.
constexpr int32_t kFirstUse = 4, kLeastUses = 16;

// An attribute of value 0 at a token occurs with its label without occurring at it.
bool have_same_weights(const WeightPattern& rows, const uint8_t* is_free, int64_t a, int64_t b) {
    const auto same = [&](const auto* values) {
        return std::equal(values + rows.ptr[a], values + rows.ptr[a + 1], values + rows.ptr[b],
                          values + rows.ptr[b + 1]);
    };
    return same(rows.cols.data()) && same(is_free);
}

}  // namespace

std::vector<int32_t> find_bundles(const Attributes& x, int64_t T, const WeightPattern& rows,
                                  const uint8_t* is_free) {
    std::vector<Occurrences> of(x.n);
    for (int64_t t = 0; t < T; ++t)
        for (int64_t j = x.indptr[t]; j < x.indptr[t + 1]; ++j) {
            const float value = x.values ? x.values[j] : 1;
            if (value != 0) of[x.ids[j]].add(t, value);
        }
    std::vector<int32_t> leaders(x.n), run;
    std::iota(leaders.begin(), leaders.end(), 0);
    for (int64_t lo = 0, hi; lo < x.n; lo = hi) {
        for (hi = lo + 1; hi < x.n && of[hi].first == of[lo].first;) ++hi;
        if (hi == lo + 1) continue;
        run.resize(hi - lo);
        std::iota(run.begin(), run.end(), static_cast<int32_t>(lo));
        std::stable_sort(run.begin(), run.end(),
                         [&](int32_t a, int32_t b) { return of[a].tied() < of[b].tied(); });
        for (size_t i = 1; i < run.size(); ++i) {
            const int32_t leader = leaders[run[i - 1]];
            if (of[leader].tied() == of[run[i]].tied() &&
                have_same_weights(rows, is_free, leader, run[i]))
                leaders[run[i]] = leader;
        }
    }
    return leaders;
}

namespace {

// The search for groups: what every attribute implies, then what each token gains by it.
class GroupSearch {
  public:
    GroupSearch(const Attributes& x_, int64_t T_, const WeightPattern& rows_,
                const std::vector<int32_t>& leaders_)
        : x(x_), T(T_), rows(rows_), of(x.n), uses(x.n, 0), gain(x.n, 0), seen(x.n, -1) {
        for (int64_t a = 0; a < x.n; ++a)
            if (leaders_[a] != a) seen[a] = kHidden;
    }

    Groups run() {
        if (!find_implied()) return {};
        find_gains();
        Groups groups;
        groups.indptr.reserve(T + 1);
        groups.indptr.push_back(0);
        groups.members_ptr.push_back(0);
        for (int64_t t = 0; t < T; ++t) {
            list(t);
            for (int32_t key; (key = best_key(t)) >= 0;) {
                if (of[key].group < 0) {
                    of[key].group = static_cast<int32_t>(groups.size());
                    each_implied(of[key], [&](int32_t a) { groups.members.push_back(a); });
                    groups.members_ptr.push_back(std::ssize(groups.members));
                }
                groups.ids.push_back(static_cast<int32_t>(x.n + of[key].group));
                each_implied(of[key], [&](int32_t a) { seen[a] = -1; });
            }
            for (const int32_t a : here)
                if (seen[a] == t) groups.ids.push_back(a);
            groups.indptr.push_back(std::ssize(groups.ids));
        }
        return groups;
    }

  private:
    static constexpr int32_t kHidden = -2;

    // The attributes that occur wherever an attribute does, itself among them, are implied[begin]
    // .. implied[begin + size].
    struct Entry {
        int64_t begin = -1;
        int32_t size = 0, group = -1;
    };

    // Collects the attributes of token t, and marks them as seen at t. False if one is repeated.
    bool list(int64_t t) {
        here.clear();
        for (int64_t j = x.indptr[t]; j < x.indptr[t + 1]; ++j) {
            const int32_t a = x.ids[j];
            if (seen[a] == kHidden || (x.values && x.values[j] == 0)) continue;
            if (seen[a] == t) return false;
            here.push_back(a);
            seen[a] = static_cast<int32_t>(t);
        }
        return true;
    }

    // Also counts uses. False if groups cannot stand for the attributes: values, or repetitions.
    bool find_implied() {
        const auto is_count = [](float value) { return value == 0 || value == 1; };
        if (x.values && !std::all_of(x.values, x.values + x.nnz, is_count)) return false;
        for (int64_t t = 0; t < T; ++t) {
            if (!list(t)) return false;
            for (const int32_t a : here) {
                ++uses[a];
                if (uses[a] < kFirstUse || uses[a] > kLeastUses) continue;
                Entry& entry = of[a];
                if (uses[a] == kFirstUse) {
                    entry.begin = std::ssize(implied);
                    entry.size = static_cast<int32_t>(here.size());
                    implied.insert(implied.end(), here.begin(), here.end());
                    continue;
                }
                int32_t *first = implied.data() + entry.begin, *kept = first;
                for (int32_t i = 0; i < entry.size; ++i)
                    if (seen[first[i]] == t) *kept++ = first[i];
                entry.size = static_cast<int32_t>(kept - first);
            }
        }
        for (int32_t& t : seen) t = std::min(t, -1);
        return true;
    }

    // In vectors or numbers that are added.
    void find_gains() {
        const double full = 1 + static_cast<double>(rows.width) / 8;
        for (int64_t a = 0; a < x.n; ++a) {
            if (of[a].size < 2 || uses[a] < kLeastUses) continue;
            double sum = 0;
            each_implied(of[a], [&](int32_t b) {
                sum += rows.is_full(b) ? full : static_cast<double>(rows.ptr[b + 1] - rows.ptr[b]);
            });
            gain[a] = static_cast<float>(sum - full - (sum + full) / uses[a]);
        }
    }

    // The attribute of token t, listed last, that gains most of those whose group is whole there,
    // and not covered by others; or -1.
    int32_t best_key(int64_t t) const {
        int32_t best = -1;
        float most = 0;
        for (const int32_t a : here) {
            if (gain[a] <= most) continue;
            const auto* first = implied.data() + of[a].begin;
            if (std::all_of(first, first + of[a].size, [&](int32_t b) { return seen[b] == t; }))
                best = a, most = gain[a];
        }
        return best;
    }

    template <class Use>
    void each_implied(const Entry& entry, const Use& use) const {
        for (int32_t i = 0; i < entry.size; ++i) use(implied[entry.begin + i]);
    }

    const Attributes& x;
    const int64_t T;
    const WeightPattern& rows;
    std::vector<Entry> of;      // [A]
    std::vector<int32_t> uses;  // [A]
    std::vector<float> gain;    // [A] what a token saves by the group of an attribute
    // [A] the last token with the attribute; -1: covered; kHidden: another one of its bundle is
    // listed
    std::vector<int32_t> seen;
    std::vector<int32_t> implied, here;
};

}  // namespace

Groups find_groups(const Attributes& x, int64_t T, const WeightPattern& rows,
                   const std::vector<int32_t>& leaders) {
    return GroupSearch(x, T, rows, leaders).run();
}

}  // namespace tagloom
