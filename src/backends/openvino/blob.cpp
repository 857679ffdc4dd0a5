#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <istream>
#include <limits>
#include <memory>
#include <ostream>
#include <streambuf>
#include <string>

#include <zstd.h>

#include "backends/openvino/compiled.hpp"
#include "support/json.hpp"
#include "support/json_fault.hpp"
#include "support/log.hpp"
#include "support/memory_limit.hpp"
#include "support/thread_pool.hpp"

// The blob: "LOV2", header length (u32), JSON header, then OpenVINO's exports, each at a multiple of 64 bytes. The
// first is stored as it is and read in place; the others are zstd frames with the first as their prefix, since all
// hold the same weights (EfficientNet-Lite0 in fp32, seven parts: 131 MB plain).

namespace lathe::openvino {

namespace {

constexpr std::string_view magic = "LOV2";
constexpr std::size_t alignment = 64;
constexpr std::size_t largest_part = std::size_t{1} << 34;

std::size_t aligned(std::size_t offset) { return (offset + alignment - 1) / alignment * alignment; }

Error damaged(const std::string& what) {
    return {ErrorCode::corrupt, "the compiled part of the engine is damaged: " + what, "", "build the engine again"};
}

Json index_json(std::size_t index) { return index == unread ? Json() : Json(index); }
std::size_t read_index(const Json& json) { return json.is_null() ? unread : count_of(json); }

Json io_json(const std::vector<IoInfo>& list, const std::vector<std::size_t>& ports) {
    Json array = Json::array();
    for (std::size_t i = 0; i < list.size(); ++i) {
        array.push_back({{"name", list[i].name},
                         {"type", to_string(list[i].type)},
                         {"min", list[i].range.min},
                         {"opt", list[i].range.opt},
                         {"max", list[i].range.max},
                         {"port", index_json(ports[i])}});
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
        ports.push_back(read_index(entry.at("port")));
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

/// Collects what is written in pieces, so that a growing string is not copied. OpenVINO goes back to fill in its
/// header.
class ChainBuffer final : public std::streambuf {
public:
    ByteChain take() {
        ByteChain chain;
        for (std::size_t i = 0; i < pieces_.size(); ++i) {
            pieces_[i].resize(std::min(piece, size_ - i * piece));
            chain.add(std::move(pieces_[i]));
        }
        pieces_.clear();
        return chain;
    }

private:
    static constexpr std::size_t piece = std::size_t{16} << 20;

    std::streamsize xsputn(const char* data, std::streamsize count) override {
        for (std::size_t left = static_cast<std::size_t>(count); left > 0;) {
            const std::size_t begin = position_ % piece;
            const std::size_t run = std::min(left, piece - begin);
            if (position_ / piece == pieces_.size()) pieces_.emplace_back(piece, '\0');
            std::memcpy(pieces_[position_ / piece].data() + begin, data, run);
            data += run;
            left -= run;
            position_ += run;
            size_ = std::max(size_, position_);
        }
        return count;
    }
    int_type overflow(int_type value) override {
        if (traits_type::eq_int_type(value, traits_type::eof())) return traits_type::not_eof(value);
        const char one = traits_type::to_char_type(value);
        xsputn(&one, 1);
        return value;
    }
    pos_type seekoff(off_type offset, std::ios_base::seekdir direction, std::ios_base::openmode /*which*/) override {
        const std::size_t from = direction == std::ios_base::beg   ? 0
                                 : direction == std::ios_base::cur ? position_
                                                                   : size_;
        const off_type position = static_cast<off_type>(from) + offset;
        if (position < 0 || position > static_cast<off_type>(size_)) return pos_type(off_type(-1));
        position_ = static_cast<std::size_t>(position);
        return pos_type(position);
    }
    pos_type seekpos(pos_type position, std::ios_base::openmode which) override {
        return seekoff(off_type(position), std::ios_base::beg, which);
    }

    std::vector<std::string> pieces_;
    std::size_t position_ = 0, size_ = 0;
};

template <auto Free>
struct Release {
    template <class T>
    void operator()(T* pointer) const {
        Free(pointer);
    }
};

/// zstd's window must reach from the end of the export back over the whole reference.
int window_log(std::size_t reference, std::size_t size) {
    const auto bounds = ZSTD_cParam_getBounds(ZSTD_c_windowLog);
    return std::clamp(static_cast<int>(std::bit_width(reference + size)), bounds.lowerBound, bounds.upperBound);
}

Result<std::string> pack(const std::string& bytes, const std::string& reference) {
    const std::unique_ptr<ZSTD_CCtx, Release<ZSTD_freeCCtx>> context(ZSTD_createCCtx());
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_enableLongDistanceMatching, 1);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_windowLog, window_log(reference.size(), bytes.size()));
    ZSTD_CCtx_refPrefix(context.get(), reference.data(), reference.size());
    std::string packed(ZSTD_compressBound(bytes.size()), '\0');
    const std::size_t size = ZSTD_compress2(context.get(), packed.data(), packed.size(), bytes.data(), bytes.size());
    if (ZSTD_isError(size) != 0) {
        return Error{ErrorCode::internal, std::string("cannot compress the compiled form: ") + ZSTD_getErrorName(size),
                     "", ""};
    }
    packed.resize(size);
    return packed;
}

/// The export of a packed part; empty for one that is stored as it is.
Result<std::string> unpack(const StoredPart& stored) {
    if (stored.reference.empty()) return std::string();
    const std::unique_ptr<ZSTD_DCtx, Release<ZSTD_freeDCtx>> context(ZSTD_createDCtx());
    ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, window_log(stored.reference.size(), stored.size));
    ZSTD_DCtx_refPrefix(context.get(), stored.reference.data(), stored.reference.size());
    std::string bytes(stored.size, '\0');
    const std::size_t size =
        ZSTD_decompressDCtx(context.get(), bytes.data(), bytes.size(), stored.bytes.data(), stored.bytes.size());
    if (ZSTD_isError(size) != 0 || size != stored.size) return damaged("a part cannot be unpacked");
    return bytes;
}

ov::CompiledModel imported(std::span<const std::byte> bytes, const ov::AnyMap& properties) {
    ViewBuffer buffer(bytes);
    std::istream stream(&buffer);
    return core().import_model(stream, "CPU", properties);
}

} // namespace

Result<ov::CompiledModel> Part::get() const {
    const std::lock_guard lock(mutex_);
    if (compiled_) return *compiled_;
    LATHE_TRY(const std::string unpacked, unpack(*stored_));
    const auto bytes = stored_->reference.empty() ? stored_->bytes : std::as_bytes(std::span(unpacked));
    return guarded("cannot load the compiled form", "openvino", [&]() -> Result<ov::CompiledModel> {
        compiled_ = imported(bytes, properties_);
        return *compiled_;
    });
}

Result<ByteChain> Part::export_bytes() const {
    if (stored_) {
        if (stored_->reference.empty()) return ByteChain(stored_->bytes);
        LATHE_TRY(std::string bytes, unpack(*stored_));
        return ByteChain(std::move(bytes));
    }
    return guarded("cannot save the compiled form", "openvino", [&]() -> Result<ByteChain> {
        ChainBuffer buffer;
        std::ostream stream(&buffer);
        LATHE_TRY(ov::CompiledModel compiled, get());
        compiled.export_model(stream);
        return buffer.take();
    });
}

Result<bool> Part::reads_back(const ByteChain& exported) const {
    if (spec_.is_dynamic() || stored_) return true; // as it was when it was saved
    // It is copied and then read: not where that could not be held beside the model.
    if (exported.size() > memory_limit() / 4) return true;
    return guarded("cannot read the compiled form", "openvino", [&]() -> Result<bool> {
        LATHE_TRY(ov::CompiledModel compiled, get());
        std::string flat = exported.flat();
        ov::CompiledModel copy = imported(std::as_bytes(std::span(flat)), properties_);
        flat = std::string(); // OpenVINO has its own copy
        return computes_the_same(compiled, copy);
    });
}

namespace {

/// Asks a model's parts whether they read back: the first, and others while all together take no more than seconds
/// (106 GMACs at batch 8 and 32 took over a minute). What one will take is told by the one before and both sizes.
class Proofreader {
public:
    Result<bool> reads_back(const Part& part, const ByteChain& exported) {
        double elements = 0;
        for (const Shape& shape : part.spec().shapes)
            elements += static_cast<double>(element_count(shape));
        if (taken_ + seconds_per_element_ * elements > most_seconds) return true;
        const auto start = std::chrono::steady_clock::now();
        LATHE_TRY(const bool same, part.reads_back(exported));
        const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        taken_ += took;
        seconds_per_element_ = took / std::max(elements, 1.0);
        return same;
    }

private:
    static constexpr double most_seconds = 3;
    double taken_ = 0;
    double seconds_per_element_ = 0;
};

} // namespace

Result<ByteChain> save_blob(const State& state) {
    Json header{{"inputs", io_json(state.inputs, state.input_ports)},
                {"outputs", io_json(state.outputs, state.output_ports)},
                {"passed_on", Json::array()},
                {"plan", state.kind == PlanKind::split ? "split" : "whole"},
                {"parts", Json::array()}};
    for (const std::size_t input : state.passed_on)
        header["passed_on"].push_back(index_json(input));
    std::vector<ByteChain> exports;
    std::string reference;  // the first export, where others are packed
    std::size_t offset = 0; // from the end of the header, rounded up
    Proofreader proofreader;
    for (const auto& part : state.parts) {
        LATHE_TRY(ByteChain bytes, part->export_bytes());
        LATHE_TRY(const bool same, proofreader.reads_back(*part, bytes));
        if (!same) {
            log(LogLevel::info, "OpenVINO would read its compiled form of this network back as another one: the engine "
                                "keeps the graph alone, and is compiled whenever it is loaded");
            return ByteChain();
        }
        const std::size_t size = bytes.size();
        if (exports.empty() && state.parts.size() > 1) reference = bytes.flat();
        if (!exports.empty()) {
            LATHE_TRY(std::string packed, pack(bytes.flat(), reference));
            bytes = ByteChain(std::move(packed));
        }
        header["parts"].push_back({{"shapes", part->spec().shapes},
                                   {"streams", part->spec().streams},
                                   {"offset", offset},
                                   {"stored", bytes.size()},
                                   {"size", size}});
        offset = aligned(offset + bytes.size());
        exports.push_back(std::move(bytes));
    }
    const std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
    const auto length = static_cast<std::uint32_t>(text.size());
    std::string blob(magic);
    blob.append(reinterpret_cast<const char*>(&length), sizeof length);
    blob += text;
    blob.resize(aligned(blob.size()));
    ByteChain chain(std::move(blob));
    for (ByteChain& bytes : exports) {
        chain.add(std::move(bytes));
        chain.add(std::string(aligned(chain.size()) - chain.size(), '\0'));
    }
    return chain;
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
    if (holds_huge_number(header)) return damaged("it holds a number out of range");
    const std::size_t base = aligned(fixed + length);
    if (base > blob.size()) return damaged("it is truncated");
    auto state = std::make_shared<State>();
    state->blob_owner = std::move(owner);
    std::span<const std::byte> reference;
    try {
        read_io(header.at("inputs"), state->inputs, state->input_ports);
        read_io(header.at("outputs"), state->outputs, state->output_ports);
        for (const auto& entry : header.value("passed_on", Json::array()))
            state->passed_on.push_back(read_index(entry));
        state->passed_on.resize(state->outputs.size(), unread); // engines of before say nothing of it
        state->kind = header.at("plan").get<std::string>() == "split" ? PlanKind::split : PlanKind::whole;
        for (const auto& entry : header.at("parts")) {
            PartSpec spec{entry.at("shapes").get<std::vector<Shape>>(), count_of(entry.at("streams"))};
            const auto offset = count_of(entry.at("offset"));
            const auto size = count_of(entry.at("stored"));
            const std::size_t room = blob.size() - base;
            if (offset > room || size > room - offset) return damaged("a part lies outside of it");
            const bool shapes_fit = spec.shapes.empty() || spec.shapes.size() == state->inputs.size();
            if (!shapes_fit || spec.streams == 0 || spec.streams > 4096) return damaged("a part makes no sense");
            for (std::size_t i = 0; i < spec.shapes.size(); ++i) {
                if (spec.shapes[i].size() != state->inputs[i].range.min.size()) return damaged("shapes disagree");
            }
            StoredPart stored{blob.subspan(base + offset, size), {}, count_of(entry.at("size"))};
            if (state->parts.empty()) {
                reference = stored.bytes;
            } else {
                stored.reference = reference;
                const auto frame = ZSTD_getFrameContentSize(stored.bytes.data(), stored.bytes.size());
                if (frame != stored.size || stored.size > largest_part) return damaged("a part's size is wrong");
            }
            const std::size_t threads = options.threads > 0 ? options.threads : available_cores();
            state->one_thread = std::min(threads, available_cores()) == 1;
            state->parts.push_back(std::make_unique<Part>(
                spec, stored, properties(options.precision, spec.streams, std::max(threads, spec.streams), false)));
        }
    } catch (const Json::exception& error) {
        return damaged("its header is not as expected (" + json_fault(error) + ")");
    }
    if (state->parts.empty()) return damaged("it holds no compiled form");
    if (std::ranges::find(state->output_ports, unread) != state->output_ports.end())
        return damaged("an output is missing");
    for (const std::size_t input : state->passed_on) {
        if (input != unread && input >= state->inputs.size()) return damaged("it passes on an input that is none");
    }
    // The first form is imported now, so that a blob OpenVINO refuses is noticed here and not in the first request.
    LATHE_CHECK(state->parts.front()->get());
    return std::unique_ptr<CompiledModel>(std::make_unique<OpenVinoModel>(std::move(state)));
}

} // namespace lathe::openvino
