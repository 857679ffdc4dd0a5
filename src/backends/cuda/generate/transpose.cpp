// Movements whose input is contiguous along one dim and whose output along another: tiles through shared memory, with
// vectors on both sides. Transpose, and Reformat between the layouts of images.
#include "backends/cuda/generate/emit.hpp"

#include <algorithm>
#include <bit>
#include <charconv>

namespace lathe::cuda::generated {

namespace {

/// The dim along which the input is contiguous, if it is not the output's; else the number of dims.
std::size_t input_dim(const Space& space) {
    const Operand& x = space.inputs.front();
    const std::size_t last = space.sizes.size() - 1;
    if (x.strides[last] == 1 || x.strides[last] == 0) return space.sizes.size();
    for (std::size_t d = 0; d < last; ++d)
        if (x.strides[d] == 1 && space.sizes[d] > 1) return d;
    return space.sizes.size();
}

struct Tile {
    std::int64_t rows = 64;    ///< along the input's contiguous dim, j
    std::int64_t columns = 64; ///< along the output's, k
    std::string id() const { return join("t", rows, "x", columns); }
};

} // namespace

bool transposes(const Space& space) { return input_dim(space) < space.sizes.size(); }

std::vector<std::string> transpose_variants(const Space& space) {
    const std::size_t j = input_dim(space);
    const std::int64_t widest = std::max(size_of(space.inputs[0].type), size_of(space.outputs[0].type));
    std::vector<std::string> ids;
    for (const std::int64_t bytes : {8192, 4096, 16384}) {
        const std::int64_t area = bytes / widest;
        Tile tile;
        tile.columns = std::min<std::int64_t>(64, up_to_power(space.inner()));
        tile.rows = std::min(area / tile.columns, up_to_power(space.sizes[j]));
        tile.columns = std::min(area / tile.rows, up_to_power(space.inner()));
        if (std::find(ids.begin(), ids.end(), tile.id()) == ids.end()) ids.push_back(tile.id());
    }
    return ids;
}

Result<GeneratedKernel> emit_transpose(const Space& space, const std::string& variant) {
    const std::size_t j = input_dim(space), k = space.sizes.size() - 1;
    const auto known = transpose_variants(space);
    if (std::find(known.begin(), known.end(), variant) == known.end()) return no_variant(variant);
    Tile tile;
    const std::size_t middle = variant.find('x');
    std::from_chars(variant.data() + 1, variant.data() + middle, tile.rows);
    std::from_chars(variant.data() + middle + 1, variant.data() + variant.size(), tile.columns);

    const Operand &x = space.inputs[0], &y = space.outputs[0];
    const std::string index = space.narrow() ? "u32" : "i64", u = space.narrow() ? "u" : "";
    // elements an access of either side
    std::int64_t in = common_power(std::min(tile.rows, 16 / size_of(x.type)), space.sizes[j]);
    in = common_power(in, x.offset);
    std::int64_t out = common_power(std::min(tile.columns, 16 / size_of(y.type)), space.inner());
    for (std::size_t d = 0; d < space.sizes.size(); ++d) {
        if (d != j) in = common_power(in, x.strides[d]);
        if (d != k) out = common_power(out, y.strides[d]);
    }
    const std::int64_t word = std::max<std::int64_t>(1, 4 / size_of(x.type));
    const std::int64_t pitch = tile.rows + word; // an odd number of words: neighbouring rows in different banks
    const std::int64_t loads = divided_up(tile.rows / in * tile.columns, usual_threads);
    const std::int64_t stores = divided_up(tile.rows * (tile.columns / out), usual_threads);
    const std::int64_t across = divided_up(space.inner(), tile.columns), down = divided_up(space.sizes[j], tile.rows);

    GeneratedKernel kernel;
    kernel.entry = "lathe_transpose";
    kernel.threads = usual_threads;
    kernel.shared_bytes = static_cast<std::uint32_t>(pitch * tile.columns * size_of(x.type));
    std::int64_t batch = 1;
    for (std::size_t d = 0; d < k; ++d)
        if (d != j) batch *= space.sizes[d];
    kernel.grid[0] = static_cast<std::uint32_t>(across * down * batch);

    Source s;
    open_kernel(s, kernel, space.inputs, space.outputs);
    s.line("  ", storage(x.type), "* tile = reinterpret_cast<", storage(x.type), "*>(shared_memory);");
    s.line("  wait_for_previous();");
    s.line("  let_next_start();");
    s.line("  const ", index, " k0 = block_x() % ", across, "u * ", tile.columns, u, ", j0 = block_x() / ", across,
           "u % ", down, "u * ", tile.rows, u, ";");
    std::string rest = join("(", index, ")(block_x() / ", across * down, "u)");
    std::string from = x.offset != 0 ? join(x.offset, u) : "0", to = "0";
    for (std::size_t d = k; d-- > 0;) {
        if (d == j) continue;
        s.line("  const ", index, " n", d, " = ", rest, " % ", space.sizes[d], u, ", rest", d, " = ", rest, " / ",
               space.sizes[d], u, ";");
        rest = join("rest", d);
        from += join(" + n", d, " * ", x.strides[d], u);
        to += join(" + n", d, " * ", y.strides[d], u);
    }
    s.line("  const ", storage(x.type), "* from = p0 + (", from, ");");
    s.line("  ", storage(y.type), "* to = q0 + (", to, ");");
    s.line("  ", storage(x.type), " x[", loads, "][", in, "];");
    const auto walk = [&](std::int64_t count, std::int64_t items, const std::string& places) {
        s.line("#pragma unroll");
        s.line("  for (int u = 0; u < ", count, "; ++u) {");
        s.line("    const u32 at = thread_index() + u * ", usual_threads, "u;");
        s.line("    const u32 ", places, ";");
        if (items % usual_threads != 0) s.line("    if (at >= ", items, "u) break;");
    };
    const std::string reading = join("kk = at / ", tile.rows / in, "u, jj = at % ", tile.rows / in, "u * ", in, "u");
    const std::int64_t in_items = tile.rows / in * tile.columns, out_items = tile.rows * (tile.columns / out);
    walk(loads, in_items, reading);
    s.line("    if (k0 + kk < ", space.valid, u, " && j0 + jj < ", space.sizes[j], u, ") load<", in,
           ">(from + (k0 + kk) * ", x.strides[k], u, " + (j0 + jj), x[u]);");
    s.line("  }");
    walk(loads, in_items, reading);
    s.line("#pragma unroll");
    s.line("    for (int e = 0; e < ", in, "; ++e) tile[kk * ", pitch, "u + jj + e] = x[u][e];");
    s.line("  }");
    s.line("  block_barrier();");
    walk(stores, out_items,
         join("jj = at / ", tile.columns / out, "u, kk = at % ", tile.columns / out, "u * ", out, "u"));
    s.line("    if (k0 + kk >= ", space.inner(), u, " || j0 + jj >= ", space.sizes[j], u, ") continue;");
    s.line("    ", storage(y.type), " y[", out, "];");
    s.line("#pragma unroll");
    s.line("    for (int e = 0; e < ", out, "; ++e) {");
    s.line("      const ", storage(x.type), " v = tile[(kk + e) * ", pitch, "u + jj];");
    std::string value = "v";
    if (x.type != y.type || x.scale != y.scale) {
        if (is_whole(x.type) && is_whole(y.type)) {
            value = join("(", storage(y.type), ")v");
        } else {
            value = to_float(x.type, "v") + times(x.scale / y.scale);
            if (y.type == ElementType::f16) value = "smaller(larger(" + value + ", -65504.0f), 65504.0f)";
            value = from_float(y.type, value);
        }
    }
    if (space.padded()) value = join("k0 + kk + e < ", space.valid, u, " ? ", value, " : (", storage(y.type), ")0");
    s.line("      y[e] = ", value, ";");
    s.line("    }");
    s.line("    store<", out, ">(to + (j0 + jj) * ", y.strides[j], u, " + (k0 + kk), y);");
    s.line("  }");
    s.line("}");
    kernel.source = s.take();
    return kernel;
}

Result<Space> movement_space(const FusedOp& op, const Plan& plan) {
    const Value &x = plan.values[op.inputs[0]], &y = plan.values[op.outputs[0]];
    View from = view_of(x), to = view_of(y);
    const auto cannot = [&](std::string why) { return Error{ErrorCode::unsupported, std::move(why), op.name, ""}; };
    std::vector<std::int64_t> strides;
    std::int64_t offset = 0;
    const bool same_rows = from.nhwc() && to.nhwc() && from.channel_stride == to.channel_stride && !x.part && !y.part;
    bool whole = false;
    if (const auto* transpose = std::get_if<Transpose>(&op.detail)) {
        if (from.dims.size() != transpose->order.size() || to.dims.size() != from.dims.size())
            return cannot("a transposition of an image of rank 3");
        for (const std::int64_t d : transpose->order)
            strides.push_back(from.strides[static_cast<std::size_t>(d)]);
    } else if (const auto* slice = std::get_if<Slice>(&op.detail)) {
        if (from.dims.size() != to.dims.size()) return cannot("a slice between layouts of rank 3");
        strides = from.strides;
        const bool flat = x.layout == Layout::nhwc && x.dims.size() == 3;
        for (std::size_t i = 0; i < slice->starts.size(); ++i) {
            const std::size_t d = flat && i == 2 ? 3 : i;
            const std::int64_t step = i < slice->steps.size() ? slice->steps[i] : 1;
            offset += slice->starts[i] * from.strides[d];
            strides[d] = from.strides[d] * step;
        }
        whole = same_rows && from.dims[1] == to.dims[1] && slice->starts[1] == 0;
    } else if (std::holds_alternative<Reformat>(op.detail)) {
        if (x.dims != y.dims) return cannot("a change of layout between unlike dims");
        if (from.dims.size() < to.dims.size()) insert_height(from);
        if (to.dims.size() < from.dims.size()) insert_height(to);
        strides = from.strides;
        whole = same_rows;
    } else {
        return cannot("not a movement");
    }
    Space space;
    if (to.dims.size() != y.dims.size() && y.layout == Layout::linear) {
        // a linear result of rank 3 beside an image: seen with its height of 1
        space = space_of(plan, op.outputs, false);
        strides.erase(strides.begin() + 2);
        to = view_of(y);
    } else {
        space = space_of(plan, op.outputs, whole);
    }
    add_input(space, plan, op.inputs[0], to, strides, offset);
    space.collapse();
    return space;
}

} // namespace lathe::cuda::generated
