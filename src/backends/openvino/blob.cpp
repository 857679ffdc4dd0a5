#include <algorithm>
#include <cstring>
#include <limits>
#include <sstream>
#include <streambuf>

#include "backends/openvino/compiled.hpp"
#include "support/json.hpp"
#include "support/thread_pool.hpp"

// The blob: "LOV1", header length (u32), JSON header, then OpenVINO's exports, each at a multiple of 64 bytes.

namespace lathe::openvino {

namespace {

constexpr std::string_view magic = "LOV1";
constexpr std::size_t alignment = 64;

std::size_t aligned(std::size_t offset) { return (offset + alignment - 1) / alignment * alignment; }

Error damaged(const std::string& what) {
    return {ErrorCode::corrupt, "the compiled part of the engine is damaged: " + what, "", "build the engine again"};
}

Json io_json(const std::vector<IoInfo>& list, const std::vector<std::size_t>& ports) {
    Json array = Json::array();
    for (std::size_t i = 0; i < list.size(); ++i) {
        array.push_back({{"name", list[i].name},
                         {"type", to_string(list[i].type)},
                         {"min", list[i].range.min},
                         {"opt", list[i].range.opt},
                         {"max", list[i].range.max},
                         {"port", ports[i]}});
    }
    return array;
}

void read_io(const Json& array, std::vector<IoInfo>& list, std::vector<std::size_t>& ports) {
    for (const auto& entry : array) {
        IoInfo io;
        io.name = entry.at("name").get<std::string>();
        io.type = data_type_from_name(entry.at("type").get<std::string>());
        io.range = {entry.at("min").get<Shape>(), entry.at("opt").get<Shape>(), entry.at("max").get<Shape>()};
        list.push_back(std::move(io));
        ports.push_back(entry.at("port").get<std::size_t>());
    }
}

/// A stream over bytes in place; `import_model` reads it without a second copy.
class ViewBuffer final : public std::streambuf {
public:
    explicit ViewBuffer(std::span<const std::byte> bytes) {
        char* data = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
        setg(data, data, data + bytes.size());
    }

private:
    pos_type seekoff(off_type offset, std::ios_base::seekdir direction, std::ios_base::openmode /*which*/) override {
        const off_type base = direction == std::ios_base::beg   ? 0
                              : direction == std::ios_base::cur ? gptr() - eback()
                                                                : egptr() - eback();
        const off_type position = base + offset;
        if (position < 0 || position > egptr() - eback()) return pos_type(off_type(-1));
        setg(eback(), eback() + position, egptr());
        return pos_type(position);
    }
    pos_type seekpos(pos_type position, std::ios_base::openmode which) override {
        return seekoff(off_type(position), std::ios_base::beg, which);
    }
};

} // namespace

Result<ov::CompiledModel> Part::get() const {
    const std::lock_guard lock(mutex_);
    if (compiled_) return *compiled_;
    return guarded("cannot load the compiled form", "openvino", [&]() -> Result<ov::CompiledModel> {
        ViewBuffer buffer(blob_);
        std::istream stream(&buffer);
        compiled_ = core().import_model(stream, "CPU", properties_);
        return *compiled_;
    });
}

Result<std::string> Part::export_bytes() const {
    if (!blob_.empty()) return std::string(reinterpret_cast<const char*>(blob_.data()), blob_.size());
    return guarded("cannot save the compiled form", "openvino", [&]() -> Result<std::string> {
        std::ostringstream stream;
        LATHE_TRY(ov::CompiledModel compiled, get());
        compiled.export_model(stream);
        return std::move(stream).str();
    });
}

Result<std::string> save_blob(const State& state) {
    Json header{{"inputs", io_json(state.inputs, state.input_ports)},
                {"outputs", io_json(state.outputs, state.output_ports)},
                {"plan", state.kind == PlanKind::split ? "split" : "whole"},
                {"parts", Json::array()}};
    std::vector<std::string> exports;
    std::size_t offset = 0; // from the end of the header, rounded up
    for (const auto& part : state.parts) {
        LATHE_TRY(std::string bytes, part->export_bytes());
        header["parts"].push_back({{"shapes", part->spec().shapes},
                                   {"streams", part->spec().streams},
                                   {"offset", offset},
                                   {"size", bytes.size()}});
        offset = aligned(offset + bytes.size());
        exports.push_back(std::move(bytes));
    }
    const std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
    const auto length = static_cast<std::uint32_t>(text.size());
    std::string blob(magic);
    blob.append(reinterpret_cast<const char*>(&length), sizeof length);
    blob += text;
    blob.resize(aligned(blob.size()));
    for (const auto& bytes : exports) {
        blob += bytes;
        blob.resize(aligned(blob.size()));
    }
    return blob;
}

Result<std::unique_ptr<CompiledModel>> load_blob(std::span<const std::byte> blob, std::shared_ptr<const void> owner,
                                                 const CompileOptions& options) {
    const std::string_view text(reinterpret_cast<const char*>(blob.data()), blob.size());
    std::uint32_t length = 0;
    const std::size_t fixed = magic.size() + sizeof length;
    if (text.size() < fixed || !text.starts_with(magic)) return damaged("it has no header");
    std::memcpy(&length, text.data() + magic.size(), sizeof length);
    if (length > text.size() - fixed) return damaged("its header is truncated");
    LATHE_TRY(const Json header, parse_json(text.substr(fixed, length), "compiled part"));
    const std::size_t base = aligned(fixed + length);
    if (base > blob.size()) return damaged("it is truncated");
    auto state = std::make_shared<State>();
    state->blob_owner = std::move(owner);
    try {
        read_io(header.at("inputs"), state->inputs, state->input_ports);
        read_io(header.at("outputs"), state->outputs, state->output_ports);
        state->kind = header.at("plan").get<std::string>() == "split" ? PlanKind::split : PlanKind::whole;
        for (const auto& entry : header.at("parts")) {
            PartSpec spec{entry.at("shapes").get<std::vector<Shape>>(), entry.at("streams").get<std::size_t>()};
            const auto offset = entry.at("offset").get<std::size_t>();
            const auto size = entry.at("size").get<std::size_t>();
            const std::size_t room = blob.size() - base;
            if (offset > room || size > room - offset) return damaged("a part lies outside of it");
            const bool shapes_fit = spec.shapes.empty() || spec.shapes.size() == state->inputs.size();
            if (!shapes_fit || spec.streams == 0 || spec.streams > 4096) return damaged("a part makes no sense");
            for (std::size_t i = 0; i < spec.shapes.size(); ++i) {
                if (spec.shapes[i].size() != state->inputs[i].range.min.size()) return damaged("shapes disagree");
            }
            const std::size_t threads = options.threads > 0 ? options.threads : available_cores();
            state->parts.push_back(std::make_unique<Part>(
                spec, blob.subspan(base + offset, size),
                properties(options.precision, spec.streams, std::max(threads, spec.streams), false)));
        }
    } catch (const Json::exception& error) {
        return damaged(std::string("its header is not as expected (") + error.what() + ")");
    }
    if (state->parts.empty()) return damaged("it holds no compiled form");
    // The first form is imported now, so that a blob OpenVINO refuses is noticed here and not in the first request.
    LATHE_CHECK(state->parts.front()->get());
    return std::unique_ptr<CompiledModel>(std::make_unique<OpenVinoModel>(std::move(state)));
}

} // namespace lathe::openvino
