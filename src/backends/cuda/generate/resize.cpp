// Resizing of the last two dims: nearest, linear, cubic; images keep neighbouring channels in a thread.
#include "backends/cuda/generate/emit.hpp"

#include <algorithm>
#include <array>

namespace lathe::cuda::generated {

namespace {

struct Axis {
    std::int64_t from = 1, to = 1, stride = 0;
    float scale = 1;
    bool same() const { return from == to && scale == 1.0F; }
};
struct Resizing {
    Operand x, y;
    std::int64_t planes = 1, plane = 0; ///< what is resized alike, and elements from one to the next
    std::int64_t inner = 1, valid = 1;  ///< channels beside each other, with and without padding
    std::int64_t pitch = 1;             ///< of the result, from pixel to pixel
    Axis height, width;
    std::int64_t piece = 1;
    std::int64_t total() const { return planes * height.to * width.to * inner; }
};

Result<Resizing> resizing_of(const FusedOp& op, const Plan& plan) {
    const auto cannot = [&](std::string why) { return Error{ErrorCode::unsupported, std::move(why), op.name, ""}; };
    const auto& detail = std::get<Resize>(op.detail);
    const Value &x = plan.values[op.inputs[0]], &y = plan.values[op.outputs[0]];
    const View from = view_of(x), to = view_of(y);
    const std::size_t rank = to.dims.size();
    if (rank < 3 || from.dims.size() != rank || from.nhwc() != to.nhwc()) return cannot("a resize between layouts");
    constexpr std::array coordinates{"", "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"};
    if (std::find(coordinates.begin(), coordinates.end(), detail.coordinates) == coordinates.end())
        return cannot("coordinate_transformation_mode " + detail.coordinates);
    constexpr std::array roundings{"", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    if (std::find(roundings.begin(), roundings.end(), detail.nearest) == roundings.end())
        return cannot("nearest_mode " + detail.nearest);
    for (std::size_t d = 0; d + 2 < rank; ++d)
        if (from.dims[d] != to.dims[d]) return cannot("a resize of more than the last two dimensions");
    Resizing r;
    r.x = operand_of(plan, op.inputs[0]);
    r.y = operand_of(plan, op.outputs[0]);
    const bool flat = x.layout == Layout::nhwc && x.dims.size() == 3;
    const auto axis = [&](std::size_t d) {
        Axis made{from.dims[d], to.dims[d], from.strides[d],
                  static_cast<float>(to.dims[d]) / static_cast<float>(from.dims[d])};
        if (!flat && detail.scales.size() == rank && detail.scales[d] > 0) made.scale = detail.scales[d];
        return made;
    };
    r.height = axis(rank - 2);
    r.width = axis(rank - 1);
    if (from.nhwc()) {
        r.planes = to.dims[0];
        r.plane = from.strides[0];
        r.inner = to.channel_stride;
        r.pitch = to.pitch;
        r.valid = to.dims[1];
        if (from.channel_stride < to.channel_stride) return cannot("a resize between paddings");
    } else {
        for (std::size_t d = 0; d + 2 < rank; ++d)
            r.planes *= to.dims[d];
        r.plane = r.height.from * r.width.from;
    }
    const auto size = static_cast<std::int64_t>(std::max(bytes_of(x.type), bytes_of(y.type)));
    if (size > 4) return cannot("a resize of 64-bit numbers");
    r.piece = common_power(16 / size, r.inner);
    if (from.nhwc())
        r.piece = common_power(common_power(r.piece, from.channel_stride), common_power(from.pitch, to.pitch));
    if (r.total() >= std::int64_t{1} << 31 || r.planes * r.plane >= std::int64_t{1} << 31)
        return cannot("over 2^31 elements");
    return r;
}

/// The first neighbour along an axis and the weights of all, as statements; gives how many there are.
int write_neighbours(Source& s, const Resize& detail, const Axis& axis, const std::string& name) {
    const std::string at = "at_" + name, first = "first_" + name, weight = "weight_" + name;
    const std::string o = join("(float)", name);
    if (axis.same()) {
        s.line("    const int ", first, " = ", name, ";");
        return 1;
    }
    std::string position = join("(", o, " + 0.5f) / ", axis.scale, " - 0.5f");
    if (detail.coordinates == "asymmetric") position = join(o, " / ", axis.scale);
    if (detail.coordinates == "align_corners")
        position = axis.to > 1
                       ? join(o, " * ", static_cast<float>(axis.from - 1), " / ", static_cast<float>(axis.to - 1))
                       : "0.0f";
    if (detail.coordinates == "pytorch_half_pixel" && axis.to == 1) position = "0.0f";
    s.line("    const float ", at, " = ", position, ";");
    if (detail.mode == ResizeMode::nearest) {
        std::string rounded = join("ceilf(", at, " - 0.5f)");
        if (detail.nearest == "floor") rounded = join("floorf(", at, ")");
        if (detail.nearest == "ceil") rounded = join("ceilf(", at, ")");
        if (detail.nearest == "round_prefer_ceil") rounded = join("floorf(", at, " + 0.5f)");
        s.line("    const int ", first, " = (int)", rounded, ";");
        return 1;
    }
    s.line("    const float base_", name, " = floorf(", at, "), t_", name, " = ", at, " - base_", name, ";");
    const std::string t = "t_" + name;
    if (detail.mode == ResizeMode::linear) {
        s.line("    const int ", first, " = (int)base_", name, ";");
        s.line("    const float ", weight, "[2] = {1.0f - ", t, ", ", t, "};");
        return 2;
    }
    const float a = detail.cubic_a;
    const auto near = [&](const std::string& d) {
        return join("((", a + 2, " * ", d, " - ", a + 3, ") * ", d, " * ", d, " + 1.0f)");
    };
    const auto far = [&](const std::string& d) {
        return join("(((", a, " * ", d, " - ", 5 * a, ") * ", d, " + ", 8 * a, ") * ", d, " - ", 4 * a, ")");
    };
    s.line("    const int ", first, " = (int)base_", name, " - 1;");
    s.line("    const float ", weight, "[4] = {", far("(" + t + " + 1.0f)"), ", ", near(t), ", ",
           near("(1.0f - " + t + ")"), ", ", far("(2.0f - " + t + ")"), "};");
    return 4;
}

} // namespace

Family resize_family(const FusedOp& op, const Plan& plan, const GeneratedTarget&) {
    const auto r = resizing_of(op, plan);
    if (!r) return refused(r.error().message);
    Family family;
    for (const std::int64_t count : {1, 2})
        family.variants.push_back(Vectors{r->piece, count}.id());
    return family;
}

Result<GeneratedKernel> emit_resize(const std::string& variant, const FusedOp& op, const Plan& plan) {
    LATHE_TRY(const Resizing r, resizing_of(op, plan));
    LATHE_TRY(const Vectors vectors, vectors_of(variant));
    if (vectors.width != r.piece) return no_variant(variant);
    const auto& detail = std::get<Resize>(op.detail);
    GeneratedKernel kernel;
    kernel.entry = "lathe_resize";
    const std::int64_t total = r.total() / r.piece, run = r.inner / r.piece;
    Source s;
    open_pieces(s, kernel, {r.x}, {r.y}, vectors, total);
    s.line("    const u32 c = i % ", run, "u * ", r.piece, "u, pixel = i / ", run, "u;");
    s.line("    const int q = pixel % ", r.width.to, "u, line = pixel / ", r.width.to, "u, p = line % ", r.height.to,
           "u, plane = line / ", r.height.to, "u;");
    s.line("    const ", storage(r.x.type), "* from = p0 + (plane * ", r.plane, "u + c);");
    const int rows = write_neighbours(s, detail, r.height, "p"), columns = write_neighbours(s, detail, r.width, "q");
    s.line("    float v[", r.piece, "] = {};");
    s.line("#pragma unroll");
    s.line("    for (int a = 0; a < ", rows, "; ++a) {");
    s.line("#pragma unroll");
    s.line("      for (int b = 0; b < ", columns, "; ++b) {");
    s.line("        ", storage(r.x.type), " x[", r.piece, "];");
    s.line("        load<", r.piece, ">(from + (within(first_p + a, ", r.height.from, ") * ", r.height.stride,
           " + within(first_q + b, ", r.width.from, ") * ", r.width.stride, "), x);");
    std::string weight;
    if (rows > 1) weight += " * weight_p[a]";
    if (columns > 1) weight += " * weight_q[b]";
    s.line("#pragma unroll");
    s.line("        for (int e = 0; e < ", r.piece, "; ++e) v[e] += ", to_float(r.x.type, "x[e]"), weight, ";");
    s.line("      }");
    s.line("    }");
    s.line("    ", storage(r.y.type), " y[", r.piece, "];");
    s.line("#pragma unroll");
    const std::string value = from_float(r.y.type, "v[e]" + times(r.x.scale / r.y.scale));
    s.line("    for (int e = 0; e < ", r.piece, "; ++e) y[e] = ",
           r.valid < r.inner ? join("c + e < ", r.valid, "u ? ", value, " : (", storage(r.y.type), ")0") : value, ";");
    s.line("    store<", r.piece, ">(q0 + (pixel * ", r.pitch, "u + c), y);");
    close_pieces(s, kernel);
    return kernel;
}

} // namespace lathe::cuda::generated
