// Pooling over windows of images, any size, stride, dilation and padding: a thread keeps neighbouring channels.
#include "backends/cuda/generate/emit.hpp"

#include <algorithm>

namespace lathe::cuda::generated {

namespace {

struct Pooling {
    Operand x, y;
    View from, to;
    std::int64_t piece = 1;
};

Result<Pooling> pooling_of(const FusedOp& op, const Plan& plan) {
    Pooling p;
    const Value &x = plan.values[op.inputs[0]], &y = plan.values[op.outputs[0]];
    p.x = operand_of(plan, op.inputs[0]);
    p.y = operand_of(plan, op.outputs[0]);
    p.from = view_of(x);
    p.to = view_of(y);
    if (!p.from.nhwc() || !p.to.nhwc() || p.from.channel_stride < p.to.channel_stride)
        return Error{ErrorCode::unsupported, "a pool of other than images of one padding", op.name, ""};
    const auto size = static_cast<std::int64_t>(std::max(bytes_of(x.type), bytes_of(y.type)));
    if (size > 4) return Error{ErrorCode::unsupported, "a pool of 64-bit numbers", op.name, ""};
    p.piece = common_power(common_power(16 / size, p.from.channel_stride), p.to.channel_stride);
    p.piece = common_power(common_power(p.piece, p.from.pitch), p.to.pitch);
    if (static_cast<std::int64_t>(x.byte_size()) >= std::int64_t{1} << 31)
        return Error{ErrorCode::unsupported, "over 2^31 bytes", op.name, ""};
    return p;
}

/// Whether the largest number of every window lies in it as well when places outside the image are moved to its edge.
bool clampable(const Pool& pool, const Pooling& p) {
    for (std::size_t d = 0; d < 2; ++d) {
        const std::int64_t last = (p.to.dims[2 + d] - 1) * pool.window.stride[d] - pool.window.pads[d];
        if (pool.window.dilation[d] != 1 || pool.window.pads[d] >= pool.window.kernel[d] || last >= p.from.dims[2 + d])
            return false;
    }
    return true;
}

std::int64_t elements(const Pooling& p) { return p.to.dims[0] * p.to.dims[2] * p.to.dims[3] * p.to.channel_stride; }

} // namespace

Family pool_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target) {
    const auto p = pooling_of(op, plan);
    if (!p) return refused(p.error().message);
    Family family;
    const std::int64_t pieces = elements(*p) / p->piece;
    for (const std::int64_t count : {1, 2})
        if (count == 1 || pieces >= std::int64_t{usual_threads} * target.multiprocessors)
            family.variants.push_back(Vectors{p->piece, count}.id());
    if (p->piece >= 8 && pieces < std::int64_t{usual_threads} * 4 * target.multiprocessors)
        family.variants.push_back(Vectors{p->piece / 2, 1}.id());
    return family;
}

Result<GeneratedKernel> emit_pool(const std::string& variant, const FusedOp& op, const Plan& plan) {
    LATHE_TRY(Pooling p, pooling_of(op, plan));
    LATHE_TRY(const Vectors vectors, vectors_of(variant));
    if (p.piece % vectors.width != 0) return no_variant(variant);
    p.piece = vectors.width;
    const auto& detail = std::get<Pool>(op.detail);
    const Window& w = detail.window;
    GeneratedKernel kernel;
    kernel.entry = "lathe_pool";
    const std::int64_t total = elements(p) / p.piece;
    const std::int64_t run = p.to.channel_stride / p.piece, height = p.from.dims[2], width = p.from.dims[3];
    Source s;
    open_pieces(s, kernel, {p.x}, {p.y}, vectors, total);
    s.line("    const u32 c = i % ", run, "u * ", p.piece, "u, pixel = i / ", run, "u;");
    s.line("    const int q = pixel % ", p.to.dims[3], "u, line = pixel / ", p.to.dims[3], "u, p = line % ",
           p.to.dims[2], "u, n = line / ", p.to.dims[2], "u;");
    s.line("    const int h0 = p * ", w.stride[0], " - ", w.pads[0], ", w0 = q * ", w.stride[1], " - ", w.pads[1], ";");
    s.line("    const ", storage(p.x.type), "* from = p0 + (n * ", p.from.strides[0], "u + c);");
    // Whole numbers are compared as such: converting bytes costs more than all else.
    const bool whole = !detail.average && (p.x.type == ElementType::s8 || is_whole(p.x.type)) && size_of(p.x.type) < 4;
    s.line("    ", whole ? "i32" : "float", " v[", p.piece, "];");
    s.line("#pragma unroll");
    s.line("    for (int e = 0; e < ", p.piece, "; ++e) v[e] = ",
           detail.average ? "0.0f"
           : whole        ? "-2147483647"
                          : "bits_float(0xff800000u)",
           ";");
    s.line("    int counted = 0;");
    // With no branch between them all loads of a window are in flight together.
    const bool clamped = !detail.average && clampable(detail, p);
    const bool small = w.kernel[0] * w.kernel[1] <= 25;
    const auto place = [&](const char* name, const char* first, const char* step, std::size_t d, std::int64_t size) {
        const std::string at = join(first, " + ", step, " * ", w.dilation[d]);
        s.line("      const int ", name, " = ", clamped ? join("within(", at, ", ", size, ")") : at, ";");
    };
    if (small) s.line("#pragma unroll");
    s.line("    for (int r = 0; r < ", w.kernel[0], "; ++r) {");
    place("h", "h0", "r", 0, height);
    if (small) s.line("#pragma unroll");
    s.line("      for (int t = 0; t < ", w.kernel[1], "; ++t) {");
    place("w", "w0", "t", 1, width);
    // what ceil_mode adds beyond the padding is not counted
    if (detail.average && detail.count_pad)
        s.line("        if (h < ", height + w.pads[2], " && w < ", width + w.pads[3], ") ++counted;");
    if (!clamped) s.line("        if (h < 0 || w < 0 || h >= ", height, " || w >= ", width, ") continue;");
    if (detail.average && !detail.count_pad) s.line("        ++counted;");
    s.line("        ", storage(p.x.type), " x[", p.piece, "];");
    s.line("        load<", p.piece, ">(from + (h * ", p.from.strides[2], " + w * ", p.from.strides[3], "), x);");
    s.line("#pragma unroll");
    const std::string element = whole ? "(i32)x[e]" : to_float(p.x.type, "x[e]");
    s.line("        for (int e = 0; e < ", p.piece, "; ++e) v[e] = ",
           detail.average ? join("v[e] + ", element)
           : whole        ? join("x[e] > v[e] ? ", element, " : v[e]")
                          : join("larger(v[e], ", element, ")"),
           ";");
    s.line("      }");
    s.line("    }");
    std::string value = "v[e]";
    if (detail.average) {
        s.line("    const float factor = ", detail.rescale, " / (float)(counted > 0 ? counted : 1);");
        value = "v[e] * factor";
    } else {
        value = (whole ? "(float)v[e]" : "v[e]") + times(detail.rescale);
    }
    s.line("    ", storage(p.y.type), " y[", p.piece, "];");
    s.line("#pragma unroll");
    s.line("    for (int e = 0; e < ", p.piece, "; ++e) y[e] = ",
           p.to.channel_stride > p.to.dims[1]
               ? join("c + e < ", p.to.dims[1], "u ? ", from_float(p.y.type, value), " : (", storage(p.y.type), ")0")
               : from_float(p.y.type, value),
           ";");
    s.line("    store<", p.piece, ">(q0 + (pixel * ", p.to.pitch, "u + c), y);");
    close_pieces(s, kernel);
    return kernel;
}

} // namespace lathe::cuda::generated
