#include "backends/cuda/plan/indexed.hpp"

#include <algorithm>
#include <array>

#include "backends/cuda/plan/detection.hpp"
#include "backends/cuda/plan/grid_sample.hpp"
#include "backends/cuda/plan/interpret_op.hpp"
#include "backends/cuda/plan/whole_numbers.hpp"

namespace lathe::cuda {
namespace {

constexpr std::array names{
    "gather_elements", "gather_nd",        "scatter_elements", "scatter_nd", "top_k",      "arg_extreme",
    "cumulate",        "triangle",         "one_hot",          "arithmetic", "pad",        "grid_sample",
    "depth_taps",      "reverse_sequence", "roi_align",        "pick_boxes", "list_boxes", "nonzero"};
static_assert(names.size() == static_cast<std::size_t>(IndexedKind::nonzero) + 1);

std::size_t product(const Shape& dims, std::size_t from, std::size_t to) {
    std::size_t count = 1;
    for (std::size_t i = from; i < to; ++i)
        count *= static_cast<std::size_t>(dims[i]);
    return count;
}

std::size_t clamped(double index, std::int64_t size) {
    auto at = static_cast<std::int64_t>(index);
    if (at < 0) at += size;
    return static_cast<std::size_t>(std::clamp<std::int64_t>(at, 0, size - 1));
}

double scattered(Scatter how, double there, double fresh) {
    switch (how) {
        case Scatter::replace: return fresh;
        case Scatter::add: return there + fresh;
        case Scatter::multiply: return there * fresh;
        case Scatter::largest: return std::max(there, fresh);
        case Scatter::smallest: return std::min(there, fresh);
    }
    return fresh;
}

/// 64 bits of a number of this type, and back.
std::int64_t bits_of_number(double number, bool plain) {
    constexpr double half = 9223372036854775808.0;
    return plain && number >= half ? static_cast<std::int64_t>(static_cast<std::uint64_t>(number))
                                   : static_cast<std::int64_t>(number);
}
double number_of_bits(std::int64_t bits, bool plain) {
    return plain ? static_cast<double>(static_cast<std::uint64_t>(bits)) : static_cast<double>(bits);
}

/// Calls visit(first element, step, number of elements) for each line along the axis.
template <class Visit>
void lines(const Shape& dims, std::size_t axis, Visit visit) {
    const std::size_t inner = product(dims, axis + 1, dims.size());
    const auto size = static_cast<std::size_t>(dims[axis]);
    for (std::size_t o = 0; o < product(dims, 0, axis); ++o) {
        for (std::size_t i = 0; i < inner; ++i)
            visit(o * size * inner + i, inner, size);
    }
}

struct Interpreter {
    Interpretation& state;
    const FusedOp& op;
    const Indexed& d;

    const Numbers& in(std::size_t i) const { return state.input(op, i); }
    const Shape& dims(std::size_t i) const { return state.value(op.inputs[i]).dims; }
    const Shape& out_dims() const { return state.value(op.outputs[0]).dims; }
    std::size_t axis() const { return static_cast<std::size_t>(d.axis); }
    void store(Numbers numbers, std::size_t output = 0) const { state.store(op.outputs[output], std::move(numbers)); }

    /// Where element i of indices or updates goes in x.
    std::size_t along_axis(std::size_t i, const Shape& index_dims, double index) const {
        const std::vector<std::int64_t> steps = strides_for(dims(0), dims(0));
        std::size_t offset = 0;
        for (std::size_t k = index_dims.size(); k-- > 0;) {
            const std::size_t at = i % static_cast<std::size_t>(index_dims[k]);
            i /= static_cast<std::size_t>(index_dims[k]);
            offset += (k == axis() ? clamped(index, dims(0)[k]) : at) * static_cast<std::size_t>(steps[k]);
        }
        return offset;
    }
    void gather_elements() const {
        const Shape& y = out_dims();
        const std::vector<std::int64_t> steps = strides_for(dims(1), y);
        Numbers out(static_cast<std::size_t>(element_count(y)));
        for (std::size_t i = 0; i < out.size(); ++i) {
            std::size_t index = 0, rest = i;
            for (std::size_t k = y.size(); k-- > 0; rest /= static_cast<std::size_t>(y[k]))
                index += rest % static_cast<std::size_t>(y[k]) * static_cast<std::size_t>(steps[k]);
            out[i] = in(0)[along_axis(i, y, in(1)[index])];
        }
        store(std::move(out));
    }
    void scatter_elements() const {
        Numbers out = in(0);
        for (std::size_t i = 0; i < in(1).size(); ++i) {
            double& there = out[along_axis(i, dims(1), in(1)[i])];
            there = scattered(static_cast<Scatter>(d.mode), there, in(2)[i]);
        }
        store(std::move(out));
    }

    /// Offset in x of a tuple of indices, and how many numbers one names.
    std::pair<std::size_t, std::size_t> tuple(std::size_t which, std::size_t batch_dims) const {
        const auto width = static_cast<std::size_t>(dims(1).back());
        const std::size_t inner = product(dims(0), batch_dims + width, dims(0).size());
        const std::size_t a_sample = product(dims(1), batch_dims, dims(1).size() - 1);
        std::size_t offset = a_sample == 0 ? 0 : which / a_sample;
        for (std::size_t k = 0; k < width; ++k) {
            const std::int64_t size = dims(0)[batch_dims + k];
            offset = offset * static_cast<std::size_t>(size) + clamped(in(1)[which * width + k], size);
        }
        return {offset * inner, inner};
    }
    void gather_nd() const {
        Numbers out;
        for (std::size_t which = 0; which < product(dims(1), 0, dims(1).size() - 1); ++which) {
            const auto [from, count] = tuple(which, axis());
            out.insert(out.end(), in(0).begin() + static_cast<std::ptrdiff_t>(from),
                       in(0).begin() + static_cast<std::ptrdiff_t>(from + count));
        }
        store(std::move(out));
    }
    void scatter_nd() const {
        Numbers out = in(0);
        for (std::size_t which = 0; which < product(dims(1), 0, dims(1).size() - 1); ++which) {
            const auto [to, count] = tuple(which, 0);
            for (std::size_t i = 0; i < count; ++i)
                out[to + i] = scattered(static_cast<Scatter>(d.mode), out[to + i], in(2)[which * count + i]);
        }
        store(std::move(out));
    }

    void top_k() const {
        const Numbers& x = in(0);
        const auto k = static_cast<std::size_t>(out_dims()[axis()]);
        Numbers values(static_cast<std::size_t>(element_count(out_dims())));
        Numbers indices(values.size());
        std::vector<std::size_t> starts;
        lines(out_dims(), axis(), [&](std::size_t from, std::size_t, std::size_t) { starts.push_back(from); });
        std::size_t line = 0;
        lines(dims(0), axis(), [&](std::size_t from, std::size_t step, std::size_t size) {
            std::vector<std::size_t> order(size);
            for (std::size_t i = 0; i < size; ++i)
                order[i] = i;
            std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
                const double left = x[from + a * step];
                const double right = x[from + b * step];
                return d.mode != 0 ? left > right : left < right;
            });
            for (std::size_t i = 0; i < k; ++i) {
                values[starts[line] + i * step] = x[from + order[i] * step];
                indices[starts[line] + i * step] = static_cast<double>(order[i]);
            }
            ++line;
        });
        store(std::move(values));
        store(std::move(indices), 1);
    }
    void arg_extreme() const {
        Numbers out;
        lines(dims(0), axis(), [&](std::size_t from, std::size_t step, std::size_t size) {
            std::size_t best = 0;
            for (std::size_t i = 1; i < size; ++i) {
                const double fresh = in(0)[from + i * step];
                const double held = in(0)[from + best * step];
                if ((d.mode != 0 ? fresh > held : fresh < held) || (d.first && fresh == held)) best = i;
            }
            out.push_back(static_cast<double>(best));
        });
        store(std::move(out));
    }
    void cumulate() const {
        Numbers out(in(0).size());
        lines(dims(0), axis(), [&](std::size_t from, std::size_t step, std::size_t size) {
            double sum = 0;
            for (std::size_t i = 0; i < size; ++i) {
                const std::size_t at = from + (d.second ? size - 1 - i : i) * step;
                if (d.first) out[at] = sum;
                sum += in(0)[at];
                if (!d.first) out[at] = sum;
            }
        });
        store(std::move(out));
    }
    void triangle() const {
        Numbers out = in(0);
        const std::int64_t columns = dims(0).back();
        const std::int64_t rows = dims(0)[dims(0).size() - 2];
        for (std::size_t i = 0; i < out.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            const std::int64_t across = at % columns - at / columns % rows;
            if (d.first ? across < d.number : across > d.number) out[i] = 0;
        }
        store(std::move(out));
    }
    void one_hot() const {
        const auto depth = static_cast<std::size_t>(out_dims()[axis()]);
        const std::size_t inner = product(out_dims(), axis() + 1, out_dims().size());
        Numbers out(static_cast<std::size_t>(element_count(out_dims())));
        for (std::size_t i = 0; i < out.size(); ++i) {
            const double index = in(0)[i / (inner * depth) * inner + i % inner];
            const double wanted = index < 0 ? index + static_cast<double>(depth) : index;
            out[i] = in(1)[static_cast<double>(i / inner % depth) == wanted ? 1 : 0];
        }
        store(std::move(out));
    }
    void pad() const {
        const Numbers& x = in(0);
        const double beside = op.inputs.size() > 1 ? in(1)[0] : 0;
        const std::size_t inner = product(out_dims(), axis() + 1, out_dims().size());
        const auto size = static_cast<std::size_t>(dims(0)[axis()]),
                   wide = static_cast<std::size_t>(out_dims()[axis()]);
        const auto how = static_cast<Padding>(d.mode);
        Numbers out(static_cast<std::size_t>(element_count(out_dims())));
        for (std::size_t i = 0; i < out.size(); ++i) {
            const std::int64_t at = static_cast<std::int64_t>(i / inner % wide) - d.number;
            const bool within = at >= 0 && at < dims(0)[axis()];
            const std::int64_t from =
                within || how == Padding::constant ? at : sampling::padded_from(at, dims(0)[axis()], how);
            out[i] = within || how != Padding::constant
                         ? x[(i / (inner * wide) * size + static_cast<std::size_t>(from)) * inner + i % inner]
                         : beside;
        }
        store(std::move(out));
    }
    void grid_sample() const {
        const Shape &x = dims(0), &y = out_dims();
        const bool volume = x.size() == 5;
        const std::size_t spatial = volume ? 3 : 2, plane_size = product(x, 2, x.size());
        const std::size_t places = product(y, 2, y.size()), channels = static_cast<std::size_t>(y[1]);
        const auto how = static_cast<Sampling>(d.mode);
        const auto outside = static_cast<Outside>(d.number);
        Numbers out(static_cast<std::size_t>(element_count(y)));
        for (std::size_t i = 0; i < out.size(); ++i) {
            const std::size_t plane = i / places, place = plane / channels * places + i % places;
            const double *from = in(0).data() + plane * plane_size, *to = in(1).data() + spatial * place;
            if (volume) {
                const auto fetch = [&](std::int64_t depth, std::int64_t row, std::int64_t column) {
                    return from[(depth * x[3] + row) * x[4] + column];
                };
                out[i] = sampling::sample_volume(fetch, x[2], x[3], x[4], to[0], to[1], to[2], how, outside, d.first);
            } else {
                const auto fetch = [&](std::int64_t row, std::int64_t column) { return from[row * x[3] + column]; };
                out[i] = sampling::sample(fetch, x[2], x[3], to[0], to[1], how, outside, d.first);
            }
        }
        store(std::move(out));
    }
    void reverse_sequence() const {
        const auto batch = static_cast<std::size_t>(d.number), time = axis();
        const std::size_t step = product(dims(0), time + 1, dims(0).size());
        const std::size_t sample = product(dims(0), batch + 1, dims(0).size());
        Numbers out(in(0).size());
        for (std::size_t i = 0; i < out.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i / step % static_cast<std::size_t>(dims(0)[time]));
            const double given = in(1)[i / sample % static_cast<std::size_t>(dims(0)[batch])];
            const auto length = std::min(static_cast<std::int64_t>(given), dims(0)[time]);
            const std::int64_t from = at < length ? length - 1 - at : at;
            out[i] = in(0)[i + static_cast<std::size_t>(from) * step - static_cast<std::size_t>(at) * step];
        }
        store(std::move(out));
    }
    void depth_taps() const {
        const Shape &x = dims(0), &y = out_dims();
        const std::int64_t wide = state.value(op.inputs[0]).channel_stride, plane = x[3] * x[4];
        Numbers out(static_cast<std::size_t>(element_count(y)), 0.0);
        for (std::size_t i = 0; i < out.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            const std::int64_t e = at / plane % y[2], channel = at / (plane * y[2]) % y[1];
            const std::int64_t n = at / (plane * y[2] * y[1]), c = channel % wide;
            const std::int64_t depth = e * d.axis + channel / wide * d.mode - d.number;
            if (c < x[1] && depth >= 0 && depth < x[2])
                out[i] = in(0)[static_cast<std::size_t>(((n * x[1] + c) * x[2] + depth) * plane + at % plane)];
        }
        store(std::move(out));
    }
    void roi_align() const {
        const Shape &x = dims(0), &y = out_dims();
        const auto height = static_cast<std::size_t>(x[2]), width = static_cast<std::size_t>(x[3]);
        const std::size_t bins = product(y, 2, 4), channels = static_cast<std::size_t>(y[1]);
        const detection::RoiGrid<double> grid{static_cast<double>(d.factor), d.number, d.mode != 0, d.first};
        Numbers out(static_cast<std::size_t>(element_count(y)));
        for (std::size_t i = 0; i < out.size(); ++i) {
            const std::size_t bin = i % bins, channel = i / bins % channels, roi = i / bins / channels;
            const std::size_t plane = clamped(in(2)[roi], x[0]) * channels + channel;
            const auto fetch = [&](std::int64_t row, std::int64_t column) {
                return in(
                    0)[(plane * height + static_cast<std::size_t>(row)) * width + static_cast<std::size_t>(column)];
            };
            const double box[4] = {in(1)[4 * roi], in(1)[4 * roi + 1], in(1)[4 * roi + 2], in(1)[4 * roi + 3]};
            out[i] = detection::roi_bin(fetch, x[2], x[3], box, y[2], y[3], static_cast<std::int64_t>(bin) / y[3],
                                        static_cast<std::int64_t>(bin) % y[3], grid);
        }
        store(std::move(out));
    }
    void pick_boxes() const {
        const Shape &boxes = dims(0), &y = out_dims();
        const auto candidates = static_cast<std::size_t>(boxes[1]), classes = static_cast<std::size_t>(y[1]);
        const auto most = static_cast<std::size_t>(y[2]);
        Numbers out(static_cast<std::size_t>(element_count(y)), -1);
        for (std::size_t row = 0; row < product(y, 0, 2); ++row) {
            const auto box = [&](std::size_t i) {
                const double* at = &in(0)[(row / classes * candidates + i) * 4];
                return detection::Box(static_cast<float>(at[0]), static_cast<float>(at[1]), static_cast<float>(at[2]),
                                      static_cast<float>(at[3]), d.first);
            };
            const auto score = [&](std::size_t i) { return in(1)[row * candidates + i]; };
            std::vector<std::size_t> order;
            for (std::size_t i = 0; i < candidates; ++i)
                if (d.second ? score(i) > static_cast<double>(d.limit) : score(i) == score(i)) order.push_back(i);
            std::stable_sort(order.begin(), order.end(),
                             [&](std::size_t a, std::size_t b) { return score(a) > score(b); });
            std::vector<std::size_t> taken;
            for (const std::size_t i : order) {
                if (taken.size() == most) break;
                if (std::any_of(taken.begin(), taken.end(),
                                [&](std::size_t k) { return detection::overlap(box(k), box(i), d.factor); }))
                    continue;
                out[row * most + taken.size()] = static_cast<double>(i);
                taken.push_back(i);
            }
        }
        store(std::move(out));
    }
    void list_boxes() const {
        Numbers rows(static_cast<std::size_t>(element_count(out_dims())));
        const auto most = static_cast<std::size_t>(dims(0)[2]), classes = static_cast<std::size_t>(dims(0)[1]);
        std::size_t count = 0;
        for (std::size_t i = 0; i < in(0).size(); ++i) {
            if (in(0)[i] < 0) continue;
            rows[3 * count] = static_cast<double>(i / most / classes);
            rows[3 * count + 1] = static_cast<double>(i / most % classes);
            rows[3 * count++ + 2] = in(0)[i];
        }
        store(std::move(rows));
        store({static_cast<double>(count)}, 1);
    }
    void nonzero() const {
        const std::size_t size = in(0).size();
        Numbers places(static_cast<std::size_t>(element_count(out_dims())));
        std::size_t count = 0;
        for (std::size_t i = 0; i < size; ++i) {
            if (in(0)[i] == 0) continue;
            std::size_t rest = i;
            for (std::size_t axis = dims(0).size(); axis-- > 0;) {
                places[axis * size + count] = static_cast<double>(rest % static_cast<std::size_t>(dims(0)[axis]));
                rest /= static_cast<std::size_t>(dims(0)[axis]);
            }
            ++count;
        }
        store(std::move(places));
        store({static_cast<double>(count)}, 1);
    }
    void arithmetic() const {
        const auto how = static_cast<Integer>(d.mode);
        std::array<std::vector<std::size_t>, 3> places;
        for (std::size_t k = 0; k < op.inputs.size(); ++k) {
            places[k].resize(static_cast<std::size_t>(element_count(out_dims())));
            walk(out_dims(), strides_for(dims(k), out_dims()), 0,
                 [&](std::size_t i, std::size_t at) { places[k][i] = at; });
        }
        const ElementType type = state.value(op.outputs[0]).type;
        Numbers out(places[0].size());
        for (std::size_t i = 0; i < out.size(); ++i) {
            const auto number = [&](std::size_t k) { return k < op.inputs.size() ? in(k)[places[k][i]] : 0.0; };
            const auto bits = [&](std::size_t k) { return bits_of_number(number(k), d.first); };
            out[i] = whole::is_of_reals(how) ? whole::computed(how, number(0), number(1))
                                             : number_of_bits(whole::computed(how, bits(0), bits(1), bits(2), d.first),
                                                              d.first && type == ElementType::u64);
            if (!is_real(type)) out[i] = wrapped(out[i], type);
        }
        store(std::move(out));
    }
};

} // namespace

std::string describe(const Indexed& d) {
    std::string text = std::string(" ") + names[static_cast<std::size_t>(d.kind)] + " axis=" + std::to_string(d.axis);
    if (d.number != 0) text += " number=" + std::to_string(d.number);
    if (d.mode != 0) text += " mode=" + std::to_string(d.mode);
    if (d.factor != 0) text += " factor=" + std::to_string(d.factor);
    if (d.limit != 0) text += " limit=" + std::to_string(d.limit);
    return text + (d.first ? " first" : "") + (d.second ? " second" : "");
}

Result<void> OpInterpreter::operator()(const Indexed& d) {
    const Interpreter run{state_, op_, d};
    switch (d.kind) {
        case IndexedKind::gather_elements: run.gather_elements(); break;
        case IndexedKind::gather_nd: run.gather_nd(); break;
        case IndexedKind::scatter_elements: run.scatter_elements(); break;
        case IndexedKind::scatter_nd: run.scatter_nd(); break;
        case IndexedKind::top_k: run.top_k(); break;
        case IndexedKind::arg_extreme: run.arg_extreme(); break;
        case IndexedKind::cumulate: run.cumulate(); break;
        case IndexedKind::triangle: run.triangle(); break;
        case IndexedKind::one_hot: run.one_hot(); break;
        case IndexedKind::arithmetic: run.arithmetic(); break;
        case IndexedKind::pad: run.pad(); break;
        case IndexedKind::grid_sample: run.grid_sample(); break;
        case IndexedKind::depth_taps: run.depth_taps(); break;
        case IndexedKind::reverse_sequence: run.reverse_sequence(); break;
        case IndexedKind::roi_align: run.roi_align(); break;
        case IndexedKind::pick_boxes: run.pick_boxes(); break;
        case IndexedKind::list_boxes: run.list_boxes(); break;
        case IndexedKind::nonzero: run.nonzero(); break;
    }
    return {};
}

} // namespace lathe::cuda
