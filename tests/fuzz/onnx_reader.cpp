// Any bytes as an ONNX model: reading them must end in a model or an error. What was read must be writable, readable
// again and then the same; the checker and shape inference must end as well.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "onnx/onnx.hpp"
#include "onnx/summary.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    auto model = lathe::parse_onnx(bytes);
    if (!model) return 0;

    const auto written = lathe::serialize_onnx(*model);
    if (!written) std::abort(); // whatever is accepted can be written
    const auto again = lathe::parse_onnx(std::as_bytes(std::span(*written)));
    if (!again) std::abort();
    const auto twice = lathe::serialize_onnx(*again);
    if (!twice || *twice != *written) std::abort(); // writing has a fixed point

    (void)lathe::check_onnx(*model).has_value();
    (void)lathe::infer_shapes(*model).has_value();
    (void)lathe::to_json(lathe::summarize(*model), true);
    (void)lathe::find_nonfinite(*model);
    auto batched = *again;
    (void)lathe::set_batch_size(batched, lathe::Dimension::of(3)).has_value();
    return 0;
}
