// Any bytes as an ONNX model: reading them must end in a model or an error. What was read must be writable, readable
// again and then the same; the checker and shape inference must end as well.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "onnx/onnx.hpp"
#include "onnx/summary.hpp"

namespace {

[[noreturn]] void fail(const char* what, const std::string& error) {
    std::fprintf(stderr, "%s: %s\n", what, error.c_str());
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    auto model = lathe::parse_onnx(bytes);
    if (!model) return 0;

    const auto written = lathe::serialize_onnx(*model);
    if (!written)
        fail("what was read cannot be written", written.error().message); // whatever is accepted can be written
    const auto again = lathe::parse_onnx(std::as_bytes(std::span(*written)));
    if (!again) fail("what was written cannot be read", again.error().message);
    const auto twice = lathe::serialize_onnx(*again);
    if (!twice || *twice != *written) fail("writing has no fixed point", twice ? "" : twice.error().message);

    (void)lathe::check_onnx(*model).has_value();
    (void)lathe::infer_shapes(*model).has_value();
    (void)lathe::to_json(lathe::summarize(*model), true);
    (void)lathe::find_nonfinite(*model);
    auto batched = *again;
    (void)lathe::set_batch_size(batched, lathe::Dimension::of(3)).has_value();
    return 0;
}
