#include "backends/cuda/plan/windows.hpp"

#include <algorithm>

namespace lathe::cuda {

Result<Window> window_of(const Node& node, const Shape& input, std::vector<std::int64_t> kernel) {
    const std::size_t spatial = input.size() < 2 ? 0 : input.size() - 2;
    const auto refuse = [&](std::string why) {
        return Error{ErrorCode::unsupported, std::move(why), node.op_type + " " + node.label(), ""};
    };
    if (spatial != 1 && spatial != 2) return refuse("only images of one or two dimensions are taken");
    kernel = node.ints_or("kernel_shape", std::move(kernel));
    auto strides = node.ints_or("strides", std::vector<std::int64_t>(spatial, 1));
    auto dilations = node.ints_or("dilations", std::vector<std::int64_t>(spatial, 1));
    auto pads = node.ints_or("pads", std::vector<std::int64_t>(spatial * 2, 0));
    if (kernel.size() != spatial || strides.size() != spatial || dilations.size() != spatial ||
        pads.size() != spatial * 2) {
        return refuse("its attributes do not fit its input");
    }
    const std::string automatic = node.string_or("auto_pad", "NOTSET");
    if (automatic == "VALID") std::fill(pads.begin(), pads.end(), 0);
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
        for (std::size_t i = 0; i < spatial; ++i) {
            const std::int64_t size = input[i + 2];
            const std::int64_t out = (size + strides[i] - 1) / strides[i];
            const std::int64_t total =
                std::max<std::int64_t>(0, (out - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - size);
            const std::int64_t less = total / 2;
            pads[i] = automatic == "SAME_UPPER" ? less : total - less;
            pads[i + spatial] = total - pads[i];
        }
    }
    Window window;
    for (std::size_t i = 0; i < spatial; ++i) {
        const std::size_t at = i + 2 - spatial;
        window.kernel[at] = kernel[i];
        window.stride[at] = strides[i];
        window.dilation[at] = dilations[i];
        window.pads[at] = pads[i];
        window.pads[at + 2] = pads[i + spatial];
    }
    const auto negative = [](std::int64_t n) { return n < 0; };
    const auto not_positive = [](std::int64_t n) { return n <= 0; };
    if (std::any_of(window.pads.begin(), window.pads.end(), negative) ||
        std::any_of(window.stride.begin(), window.stride.end(), not_positive) ||
        std::any_of(window.dilation.begin(), window.dilation.end(), not_positive) ||
        std::any_of(window.kernel.begin(), window.kernel.end(), not_positive)) {
        return refuse("negative padding, or a size of zero");
    }
    return window;
}

} // namespace lathe::cuda
