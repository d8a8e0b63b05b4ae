// Labels as sets of sub-tags: NOUN|Case=Nom|Number=Sing has NOUN, Case=Nom and Number=Sing. Labels
// that contain a sub-tag share its weights:
//
//   emit[y]          = row[y] + sum_{s in y} sub[s]
//   trans[y_prev, y] = own[y_prev, y] + sum_{r in y_prev} sum_{s in y} between[r, s]
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace tagloom {

class Subtags {
  public:
    int64_t S = 0;  // sub-tags; 0: labels have none

    Subtags() = default;
    // The sub-tags of label y are ids[ptr[y]] .. ids[ptr[y + 1]], numbers below S.
    Subtags(int64_t n, std::span<const int32_t> ptr_, std::span<const int32_t> ids_)
        : S(n), ptr(ptr_.begin(), ptr_.end()), ids(ids_.begin(), ids_.end()) {
        std::map<std::pair<int32_t, int32_t>, int32_t> known;  // (prefix before, sub-tag) -> prefix
        for (int64_t y = 0; y < n_labels(); ++y) {
            int32_t prefix = 0;
            each(y, [&](int32_t s) {
                const auto [at, is_new] =
                    known.try_emplace({prefix, s}, static_cast<int32_t>(known.size()) + 1);
                if (is_new) prefixes.push_back({prefix, s});
                prefix = at->second;
            });
            of_label.push_back(prefix);
        }
    }

    int64_t n_labels() const { return static_cast<int64_t>(ptr.size()) - 1; }

    // Calls use(s) for each sub-tag of a label.
    template <class Use>
    void each(int64_t y, const Use& use) const {
        for (int32_t j = ptr[y]; j < ptr[y + 1]; ++j) use(ids[j]);
    }
    // emit[y] = row[y] + the scores sub [S] of y's sub-tags, summed in their order; emit may be
    // row. Labels that begin alike share the sums of these beginnings, in `sums`.
    template <class In>
    void spread(const In* row, const In* sub, In* emit, std::vector<In>& sums) const {
        sums.resize(prefixes.size() + 1);
        In* sum = sums.data();
        sum[0] = 0;
        for (const Prefix& prefix : prefixes) *++sum = sums[prefix.before] + sub[prefix.last];
        for (int64_t y = 0; y < n_labels(); ++y) emit[y] = row[y] + sums[of_label[y]];
    }
    double between(const double* weights, int64_t y_prev, int64_t y) const {
        double sum = 0;
        each(y_prev, [&](int64_t r) { each(y, [&](int64_t s) { sum += weights[r * S + s]; }); });
        return sum;
    }

  private:
    struct Prefix {
        int32_t before, last;  // the prefix without its last sub-tag, and that
    };
    std::vector<int32_t> ptr{0}, ids;  // [Y + 1]
    std::vector<Prefix> prefixes;      // those of all labels, numbered from 1; 0 is empty
    std::vector<int32_t> of_label;     // [Y] the prefix that is the whole label
};

}  // namespace tagloom
