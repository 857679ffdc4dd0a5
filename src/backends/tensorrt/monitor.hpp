#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "backends/tensorrt/api.hpp"
#include "lathe/progress.hpp"

namespace lathe::tensorrt {

/// Shows how far a build is, the innermost of TensorRT's nested phases at a time, and ends it when the user asks to
/// stop. Called by TensorRT's threads.
class BuildMonitor final : public nvinfer1::IProgressMonitor {
public:
    explicit BuildMonitor(Progress& progress) : progress_(progress) {}

    void phaseStart(char const* name, char const* parent, std::int32_t steps) noexcept override;
    bool stepComplete(char const* name, std::int32_t step) noexcept override;
    void phaseFinish(char const* name) noexcept override;

private:
    struct Phase {
        std::string name;
        std::size_t steps = 0, done = 0;
    };
    void show();

    Progress& progress_;
    std::mutex mutex_;
    std::vector<Phase> phases_; ///< outermost first
};

} // namespace lathe::tensorrt
