#include "backends/tensorrt/monitor.hpp"

#include <algorithm>

namespace lathe::tensorrt {

void BuildMonitor::show() {
    if (phases_.empty()) return;
    const Phase& phase = phases_.back();
    progress_.begin(std::string(product_name) + ": " + phase.name, phase.steps);
    if (phase.done > 0) progress_.advance(phase.done);
}

void BuildMonitor::phaseStart(char const* name, char const* /*parent*/, std::int32_t steps) noexcept {
    const std::lock_guard lock(mutex_);
    if (!phases_.empty()) progress_.end();
    phases_.push_back({name, static_cast<std::size_t>(std::max(steps, 0)), 0});
    show();
}

bool BuildMonitor::stepComplete(char const* name, std::int32_t step) noexcept {
    const std::lock_guard lock(mutex_);
    // Steps are counted from 0, and may be told in any order.
    const auto done = static_cast<std::size_t>(std::max(step, 0)) + 1;
    for (Phase& phase : phases_) {
        if (phase.name != name || done <= phase.done) continue;
        if (&phase == &phases_.back()) progress_.advance(done - phase.done);
        phase.done = done;
    }
    return !progress_.cancelled();
}

void BuildMonitor::phaseFinish(char const* name) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(phases_.rbegin(), phases_.rend(), [&](const Phase& p) { return p.name == name; });
    if (found == phases_.rend()) return;
    const bool shown = found == phases_.rbegin();
    phases_.erase(std::next(found).base());
    if (!shown) return;
    progress_.end();
    show();
}

} // namespace lathe::tensorrt
