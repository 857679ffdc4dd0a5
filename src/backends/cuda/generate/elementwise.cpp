// Elementwise kernels with any broadcasting, and movements that are other strides alone.
#include "backends/cuda/generate/emit.hpp"

#include <algorithm>
#include <charconv>

namespace lathe::cuda::generated {

namespace {

/// How an operand's elements for one vector are read or written.
enum class Access {
    vector,  ///< neighbours in memory
    splat,   ///< one element for all
    guarded, ///< neighbours, those of the padding left out
    each     ///< one after another, each at its own place
};
struct Reading {
    Access access = Access::each;
    std::int64_t piece = 1; ///< elements an instruction
};

class Elementwise {
public:
    Elementwise(const Space& space, const FusedOp& op, Vectors vectors)
        : space_(space), program_(std::get_if<Pointwise>(&op.detail)), integers_(std::get_if<Indexed>(&op.detail)),
          vectors_(vectors), flat_(space.inner() % vectors.width != 0), index_(space.narrow() ? "u32" : "i64"),
          suffix_(space.narrow() ? "u" : "") {
        for (const Operand& each : space.inputs)
            inputs_.push_back(reading(each));
    }

    Result<GeneratedKernel> emit(const std::string& name) {
        GeneratedKernel kernel;
        kernel.entry = "lathe_" + name;
        const std::int64_t total = space_.total() / vectors_.width;
        kernel.threads = threads_ = threads_for(total, vectors_.count);
        const std::int64_t block = threads_ * vectors_.count;
        kernel.grid[0] = static_cast<std::uint32_t>(divided_up(total, block));
        guard_ = total % block != 0;
        total_ = total;
        open_kernel(source_, kernel, space_.inputs, space_.outputs);
        source_.line("  wait_for_previous();");
        source_.line("  let_next_start();");
        source_.line("  const ", index_, " first = (", index_, ")block_x() * ", block, suffix_, " + thread_index();");
        for (std::size_t k = 0; k < inputs_.size(); ++k)
            source_.line("  ", storage(space_.inputs[k].type), " x", k, "[", vectors_.count, "][",
                         inputs_[k].access == Access::splat ? 1 : vectors_.width, "];");
        each_vector([&] { loads(); });
        Result<void> written;
        each_vector([&] { written = results(); });
        LATHE_CHECK(written);
        source_.line("}");
        kernel.source = source_.take();
        return kernel;
    }

private:
    Reading reading(const Operand& x) const {
        if (flat_) {
            if (x.offset != 0 || x.strides != space_.outputs.front().strides || !space_.dense(space_.outputs.front()))
                return {};
            return {Access::vector, std::min(vectors_.width, 16 / size_of(x.type))};
        }
        if (x.strides.back() == 0) return {Access::splat, 1};
        if (x.strides.back() != 1) return {};
        const bool whole = !space_.padded() || space_.valid % vectors_.width == 0 || x.room >= space_.inner();
        if (!whole) return {Access::guarded, 1};
        return {Access::vector, piece(x)};
    }
    /// Elements an instruction may take at once, by what an operand's strides and offset allow.
    std::int64_t piece(const Operand& x) const {
        std::int64_t most = std::min(vectors_.width, std::max<std::int64_t>(1, 16 / size_of(x.type)));
        most = common_power(most, x.offset);
        for (std::size_t d = 0; d + 1 < space_.sizes.size(); ++d)
            most = common_power(most, x.strides[d]);
        return most;
    }

    template <class Body>
    void each_vector(Body body) {
        source_.line("#pragma unroll");
        source_.line("  for (int u = 0; u < ", vectors_.count, "; ++u) {");
        source_.line("    const ", index_, " i = first + u * ", threads_, suffix_, ";");
        if (guard_) source_.line("    if (i >= ", total_, suffix_, ") break;");
        if (!flat_) {
            const std::int64_t run = space_.inner() / vectors_.width;
            if (space_.sizes.size() == 1) {
                source_.line("    const ", index_, " c = i * ", vectors_.width, suffix_, ";");
            } else {
                source_.line("    const ", index_, " row = i / ", run, suffix_, ", c = i % ", run, suffix_, " * ",
                             vectors_.width, suffix_, ";");
                decompose("row", space_.sizes.size() - 1, "    ");
            }
        }
        body();
        source_.line("  }");
    }
    /// n0, n1, ...: indices of the first `count` dims.
    void decompose(const std::string& from, std::size_t count, const std::string& margin) {
        std::string rest = from;
        for (std::size_t d = count; d-- > 0;) {
            if (d == 0) {
                source_.line(margin, "const ", index_, " n0 = ", rest, ";");
            } else {
                source_.line(margin, "const ", index_, " n", d, " = ", rest, " % ", space_.sizes[d], suffix_, ";");
                source_.line(margin, "const ", index_, " rest", d, " = ", rest, " / ", space_.sizes[d], suffix_, ";");
                rest = join("rest", d);
            }
        }
    }
    std::string place(const Operand& x, std::size_t count, const std::string& inner) const {
        std::string text;
        const auto add = [&](const std::string& index, std::int64_t stride) {
            if (stride == 0) return;
            text += (text.empty() ? "" : " + ") + index;
            if (stride != 1) text += join(" * ", stride, suffix_);
        };
        for (std::size_t d = 0; d < count; ++d)
            add(join("n", d), x.strides[d]);
        if (!inner.empty()) add(inner, x.strides.back());
        if (x.offset != 0) text += join(text.empty() ? "" : " + ", x.offset, suffix_);
        return text.empty() ? "0" : text;
    }

    void loads() {
        if (!flat_ && space_.padded() && space_.valid % vectors_.width == 0)
            source_.line("    if (c >= ", space_.valid, suffix_, ") continue;");
        for (std::size_t k = 0; k < inputs_.size(); ++k) {
            const Operand& x = space_.inputs[k];
            const std::string from = join("p", k), to = join("x", k, "[u]");
            const std::size_t outer = space_.sizes.size() - 1;
            if (flat_) {
                if (inputs_[k].access == Access::vector)
                    source_.line("    load<", inputs_[k].piece, ">(", from, " + i * ", vectors_.width, suffix_, ", ",
                                 to, ");");
                continue;
            }
            switch (inputs_[k].access) {
                case Access::vector:
                    source_.line("    load<", inputs_[k].piece, ">(", from, " + (", place(x, outer, "c"), "), ", to,
                                 ");");
                    break;
                case Access::splat: source_.line("    ", to, "[0] = ", from, "[", place(x, outer, ""), "];"); break;
                case Access::guarded:
                case Access::each:
                    source_.line("#pragma unroll");
                    source_.line("    for (int e = 0; e < ", vectors_.width, "; ++e)");
                    source_.line("      ", to, "[e] = ",
                                 space_.padded()
                                     ? join("c + e >= ", space_.valid, suffix_, " ? (", storage(x.type), ")0 : ")
                                     : std::string(),
                                 from, "[", place(x, outer, "(c + e)"), "];");
                    break;
            }
        }
        const bool apart = flat_ && std::any_of(inputs_.begin(), inputs_.end(),
                                                [](const Reading& one) { return one.access == Access::each; });
        if (!apart) return;
        source_.line("#pragma unroll");
        source_.line("    for (int e = 0; e < ", vectors_.width, "; ++e) {");
        source_.line("      const ", index_, " at = i * ", vectors_.width, suffix_, " + e;");
        decompose("at", space_.sizes.size(), "      ");
        for (std::size_t k = 0; k < inputs_.size(); ++k)
            if (inputs_[k].access == Access::each)
                source_.line("      x", k, "[u][e] = p", k, "[", place(space_.inputs[k], space_.sizes.size(), ""),
                             "];");
        source_.line("    }");
    }

    /// Moves stored numbers: no conversion.
    bool raw() const {
        return program_ == nullptr && integers_ == nullptr && space_.inputs[0].type == space_.outputs[0].type &&
               space_.inputs[0].scale == space_.outputs[0].scale;
    }
    std::string element(std::size_t k) const {
        return join("x", k, "[u][", inputs_[k].access == Access::splat ? "0" : "e", "]");
    }

    Result<void> results() {
        for (std::size_t o = 0; o < space_.outputs.size(); ++o)
            source_.line("    ", storage(space_.outputs[o].type), " y", o, "[", vectors_.width, "];");
        source_.line("#pragma unroll");
        source_.line("    for (int e = 0; e < ", vectors_.width, "; ++e) {");
        LATHE_CHECK(values());
        source_.line("    }");
        for (std::size_t o = 0; o < space_.outputs.size(); ++o) {
            const Operand& y = space_.outputs[o];
            if (space_.dense(y)) {
                const std::int64_t piece = std::min(vectors_.width, std::max<std::int64_t>(1, 16 / size_of(y.type)));
                source_.line("    store<", piece, ">(q", o, " + i * ", vectors_.width, suffix_, ", y", o, ");");
            } else if (!flat_) { // a part of an image
                source_.line("    store<", piece(y), ">(q", o, " + (", place(y, space_.sizes.size() - 1, "c"), "), y",
                             o, ");");
            } else {
                return Error{ErrorCode::unsupported, "a part of an image of channels that are no whole vectors", "",
                             ""};
            }
        }
        return {};
    }

    Result<void> values() {
        const std::string zero = space_.padded() ? join("c + e >= ", space_.valid, suffix_, " ? ") : std::string();
        const auto set = [&](std::size_t o, const std::string& value) {
            const std::string nothing = join("(", storage(space_.outputs[o].type), ")0 : ");
            source_.line("      y", o, "[e] = ", zero.empty() ? value : zero + nothing + value, ";");
        };
        const Operand &x = space_.inputs.front(), &y = space_.outputs.front();
        if (raw()) {
            set(0, element(0));
            return {};
        }
        if (integers_ != nullptr) {
            std::vector<std::string> names(3, "0");
            for (std::size_t k = 0; k < inputs_.size() && k < names.size(); ++k)
                names[k] = join("(i64)", element(k));
            const std::string number =
                integer_expression(static_cast<Integer>(integers_->mode), names[0], names[1], names[2]);
            set(0, join("(", storage(y.type), ")(", number, y.type == ElementType::boolean ? " != 0)" : ")"));
            return {};
        }
        if (program_ == nullptr && is_whole(x.type) && is_whole(y.type)) {
            set(0, join("(", storage(y.type), ")", element(0)));
            return {};
        }
        if (program_ == nullptr) {
            std::string value = to_float(x.type, element(0)) + times(x.scale / y.scale);
            // masks of -3.4e38 stay finite
            if (y.type == ElementType::f16) value = "smaller(larger(" + value + ", -65504.0f), 65504.0f)";
            set(0, from_float(y.type, value));
            return {};
        }
        std::vector<std::string> names;
        for (std::size_t k = 0; k < inputs_.size(); ++k) {
            names.push_back(join("a", k));
            source_.line("      const float a", k, " = ", to_float(space_.inputs[k].type, element(k)),
                         times(space_.inputs[k].scale), ";");
        }
        const bool exact = std::any_of(space_.outputs.begin(), space_.outputs.end(), [](const Operand& each) {
            return each.type != ElementType::f16 && each.type != ElementType::bf16 && each.type != ElementType::s8;
        });
        LATHE_TRY(const auto found, write_program(source_, *program_, names, exact));
        for (std::size_t o = 0; o < space_.outputs.size(); ++o)
            set(o, from_float(space_.outputs[o].type, found[o] + times(1.0F / space_.outputs[o].scale)));
        return {};
    }

    const Space& space_;
    const Pointwise* program_;
    const Indexed* integers_;
    Vectors vectors_;
    bool flat_; ///< vectors run over the ends of rows
    std::string index_, suffix_;
    std::vector<Reading> inputs_;
    Source source_;
    std::int64_t total_ = 0;
    std::uint32_t threads_ = usual_threads;
    bool guard_ = false;
};

} // namespace

void open_kernel(Source& source, GeneratedKernel& kernel, const std::vector<Operand>& inputs,
                 const std::vector<Operand>& outputs) {
    std::string arguments;
    const auto add = [&](const Operand& each, const char* constant, char letter, std::size_t i) {
        arguments += join(arguments.empty() ? "" : ", ", constant, storage(each.type), "* __restrict__ ",
                          std::string(1, letter), i);
        kernel.arguments.push_back(each.argument);
    };
    for (std::size_t i = 0; i < inputs.size(); ++i)
        add(inputs[i], "const ", 'p', i);
    for (std::size_t i = 0; i < outputs.size(); ++i)
        add(outputs[i], "", 'q', i);
    source.line("KERNEL void __launch_bounds__(", kernel.threads, ") ", kernel.entry, "(", arguments, ") {");
}

void open_pieces(Source& source, GeneratedKernel& kernel, const std::vector<Operand>& inputs,
                 const std::vector<Operand>& outputs, const Vectors& vectors, std::int64_t total) {
    kernel.threads = threads_for(total, vectors.count);
    const std::int64_t block = kernel.threads * vectors.count;
    kernel.grid[0] = static_cast<std::uint32_t>(divided_up(total, block));
    open_kernel(source, kernel, inputs, outputs);
    source.line("  wait_for_previous();");
    source.line("  let_next_start();");
    source.line("#pragma unroll");
    source.line("  for (int u = 0; u < ", vectors.count, "; ++u) {");
    source.line("    const u32 i = block_x() * ", block, "u + u * ", kernel.threads, "u + thread_index();");
    source.line("    if (i >= ", total, "u) break;");
}

void close_pieces(Source& source, GeneratedKernel& kernel) {
    source.line("  }");
    source.line("}");
    kernel.source = source.take();
}

std::int64_t elementwise_width(const Space& space) {
    std::int64_t widest = 1;
    for (const Operand& each : space.outputs)
        widest = std::max(widest, size_of(each.type));
    for (const Operand& each : space.inputs)
        if (each.strides == space.outputs.front().strides) widest = std::max(widest, size_of(each.type));
    const std::int64_t width = 16 / widest;
    const std::int64_t in_row = common_power(width, space.inner()), all = common_power(width, space.total());
    // Images' padding is told by the place in a row.
    return space.padded() || !space.dense(space.outputs.front()) ? in_row : std::max(in_row, all);
}

std::vector<Vectors> vector_choices(std::int64_t width, std::int64_t elements, const GeneratedTarget& target) {
    std::vector<Vectors> choices;
    const std::int64_t vectors = divided_up(elements, width);
    const std::int64_t processors = std::max(1, target.multiprocessors);
    // As many loads in flight as still leave every multiprocessor a few blocks.
    std::int64_t best = 1;
    while (best < 4 && vectors >= usual_threads * best * 2 * processors * 3)
        best *= 2;
    choices.push_back({width, best});
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{2}, std::int64_t{4}, std::int64_t{8}})
        if (count != best && (count <= 4 || vectors >= usual_threads * count * processors * 4))
            choices.push_back({width, count});
    return choices;
}

Result<Vectors> vectors_of(const std::string& variant) {
    Vectors vectors;
    const char* end = variant.data() + variant.size();
    if (variant.size() < 4 || variant[0] != 'v') return no_variant(variant);
    const auto width = std::from_chars(variant.data() + 1, end, vectors.width);
    if (width.ec != std::errc() || width.ptr == end || *width.ptr != 'x') return no_variant(variant);
    const auto count = std::from_chars(width.ptr + 1, end, vectors.count);
    if (count.ec != std::errc() || count.ptr != end || vectors.width < 1 || vectors.width > 16 || vectors.count < 1 ||
        vectors.count > 8)
        return no_variant(variant);
    return vectors;
}

Result<GeneratedKernel> emit_elementwise(const Space& space, const FusedOp& op, const std::string& name,
                                         const Vectors& vectors) {
    if (space.total() % vectors.width != 0 || (space.padded() && space.inner() % vectors.width != 0))
        return no_variant(vectors.id());
    return Elementwise(space, op, vectors).emit(name);
}

} // namespace lathe::cuda::generated
