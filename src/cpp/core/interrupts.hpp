// Lets the user interrupt a long search. The caller of the core sets `interrupt_check` for its own
// thread; searches step an InterruptPoll, which calls it now and then.
#pragma once

#include <cstdint>

namespace tagloom {

struct Interrupted {};

// Whether the user has asked to stop; null where nobody can ask.
inline thread_local bool (*interrupt_check)() = nullptr;

class InterruptPoll {
  public:
    // Throws Interrupted, rarely enough to cost nothing beside the steps of a search.
    void step() {
        if ((++steps_ & 0xffff) == 0 && interrupt_check && interrupt_check()) throw Interrupted{};
    }

  private:
    uint32_t steps_ = 0;
};

}  // namespace tagloom
