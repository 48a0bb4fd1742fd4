// The Python side: everything that comes in is checked here; behind this file nothing is.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <optional>

#include "plan.h"
#include "pool.h"

namespace nb = nanobind;
using namespace nispa;

namespace {

template <class T, class... More>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu, More...>;
using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

void check(bool ok, const std::string& what) {
  if (!ok) throw nb::value_error(what.c_str());
}

struct PyPlan {
  std::shared_ptr<Plan> plan;
  std::vector<Array<float>> stores;  // keeps the weights' memory alive
};

struct PyTape {
  std::shared_ptr<Plan> plan;
  std::unique_ptr<Tape> tape;
  long count;
  ~PyTape() { plan->recycle(std::move(tape)); }
};

// A list of arrays, taken as they are: what is written to must not be a converted copy.
template <class A>
std::vector<A> arrays(const nb::list& list) {
  std::vector<A> found;
  for (nb::handle item : list) {
    A a;
    if (!nb::try_cast<A>(item, a, false)) throw nb::type_error("an array has a wrong type, layout or device");
    found.push_back(std::move(a));
  }
  return found;
}

template <class T>
std::vector<T> copy(const Array<const T, nb::ndim<1>>& a) {
  return std::vector<T>(a.data(), a.data() + a.size());
}

void make_plan(PyPlan* self, nb::list described, int channels, int height, int width) {
  std::vector<LayerData> layers;
  std::vector<Array<float>> stores;
  for (nb::handle item : described) {
    auto d = nb::cast<nb::dict>(item);
    LayerData a;
    a.conv = nb::cast<bool>(d["conv"]);
    a.targets = nb::cast<int>(d["targets"]);
    a.columns = nb::cast<int>(d["columns"]);
    a.kernel = nb::cast<int>(d["kernel"]);
    a.pool = nb::cast<int>(d["pool"]);
    a.relu = nb::cast<bool>(d["relu"]);
    a.frozen = nb::cast<int>(d["frozen"]);
    a.working = nb::cast<int>(d["working"]);
    a.units = copy(nb::cast<Array<const int32_t, nb::ndim<1>>>(d["units"]));
    a.starts = copy(nb::cast<Array<const int32_t, nb::ndim<1>>>(d["starts"]));
    a.index = copy(nb::cast<Array<const int32_t, nb::ndim<1>>>(d["index"]));
    auto weights = nb::cast<Array<float>>(d["weights"], false);
    auto biases = nb::cast<Array<float>>(d["biases"], false);
    check(weights.size() == a.index.size() * a.kernel * a.kernel, "weights do not fit the index");
    check(biases.size() == size_t(a.targets), "biases do not fit the units");
    a.weights = weights.data();
    a.biases = biases.data();
    stores.push_back(weights);
    stores.push_back(biases);
    layers.push_back(std::move(a));
  }
  new (self) PyPlan{std::make_shared<Plan>(std::move(layers), channels, height, width), std::move(stores)};
}

using Rows = std::optional<Array<const int64_t, nb::ndim<1>>>;
using Scaling = Array<const float, nb::ndim<1>>;

Source source(const Plan& plan, const AnyArray& data, const Rows& rows, const Scaling& scale, const Scaling& shift) {
  Source s;
  s.bytes = data.dtype() == nb::dtype<uint8_t>();
  check(s.bytes || data.dtype() == nb::dtype<float>(), "inputs must be uint8 or float32");
  check(data.ndim() >= 1, "inputs must have one row a sample");
  const long samples = long(data.shape(0));
  check(long(data.size()) == samples * plan.features(),
        "inputs have " + std::to_string(samples ? data.size() / samples : 0) + " features, the network reads " +
            std::to_string(plan.features()));
  s.data = data.data();
  s.count = rows ? long(rows->size()) : samples;
  if (rows) {
    s.rows = rows->data();
    for (long i = 0; i < s.count; i++)
      if (s.rows[i] < 0 || s.rows[i] >= samples)
        throw nb::index_error(
            ("row " + std::to_string(s.rows[i]) + " of " + std::to_string(samples) + " samples").c_str());
  }
  const bool images = plan.layer(0).conv;
  for (const Scaling* a : {&scale, &shift}) {
    const long n = long(a->size());
    check(n == 1 || (images ? n == plan.channels() : n > 0 && plan.features() % n == 0),
          "scale and shift must have one number, or one a channel");
  }
  check(images || scale.size() == shift.size() || scale.size() == 1 || shift.size() == 1,
        "scale and shift must have one number, or one a channel");
  s.scale = copy(scale);
  s.shift = copy(shift);
  return s;
}

PyTape* forward(PyPlan& self, const AnyArray& data, const Rows& rows, const Scaling& scale,
                const Scaling& shift, bool idle, bool keep, Array<float, nb::ndim<2>> logits) {
  const Source s = source(*self.plan, data, rows, scale, shift);
  check(long(logits.shape(0)) == s.count && int(logits.shape(1)) == self.plan->outputs(), "logits have a wrong shape");
  std::unique_ptr<Tape> tape;
  {
    nb::gil_scoped_release release;
    tape = self.plan->forward(s, idle, keep, logits.data());
  }
  if (!tape) return nullptr;
  return new PyTape{self.plan, std::move(tape), s.count};  // Python owns it
}

void backward(PyPlan& self, const PyTape& tape, Array<const float, nb::ndim<2>> gradient, const nb::list& to_weights,
              const nb::list& to_biases) {
  const auto weights = arrays<Array<float>>(to_weights), biases = arrays<Array<float>>(to_biases);
  const Plan& plan = *self.plan;
  check(tape.plan == self.plan && tape.tape, "the tape belongs to another plan");
  check(long(gradient.shape(0)) == tape.count && int(gradient.shape(1)) == plan.outputs(),
        "the logits' gradient has a wrong shape");
  check(int(weights.size()) == plan.layers() && int(biases.size()) == plan.layers(), "one gradient a layer is wanted");
  std::vector<float*> w, b;
  for (int l = 0; l < plan.layers(); l++) {
    const LayerData& a = plan.layer(l);
    check(long(weights[l].size()) == (long(a.index.size()) - plan.row_begin(l)) * a.kernel * a.kernel &&
              int(biases[l].size()) == a.targets - a.frozen,
          "the gradients of layer " + std::to_string(l) + " have a wrong size");
    w.push_back(weights[l].data());
    b.push_back(biases[l].data());
  }
  nb::gil_scoped_release release;
  self.plan->backward(*tape.tape, tape.count, gradient.data(), w, b);
}

void sums(PyPlan& self, const AnyArray& data, const Rows& rows, const Scaling& scale, const Scaling& shift,
          const nb::list& to_totals) {
  const auto totals = arrays<Array<double>>(to_totals);
  const Source s = source(*self.plan, data, rows, scale, shift);
  check(int(totals.size()) + 1 == self.plan->layers(), "one total a hidden layer is wanted");
  std::vector<double*> to;
  for (size_t l = 0; l < totals.size(); l++) {
    check(int(totals[l].size()) == self.plan->layer(int(l)).targets, "a total has a wrong size");
    to.push_back(totals[l].data());
  }
  nb::gil_scoped_release release;
  self.plan->sums(s, to);
}

void copy_out(PyPlan& self, const PyTape& tape, int layer, Array<float> to) {
  check(tape.plan == self.plan && tape.tape, "the tape belongs to another plan");
  check(0 <= layer && layer + 1 < self.plan->layers(), "there is no such hidden layer");
  const Plane p = self.plan->map(layer);
  check(long(to.size()) == tape.count * self.plan->layer(layer).targets * p.height * p.width, "wrong size");
  self.plan->copy_out(*tape.tape, layer, tape.count, to.data());
}

// Adam or SGD with momentum over the leading part of every parameter.
class Optimizer {
 public:
  Optimizer(bool adam, const nb::list& values, std::vector<long> counts, double rate, double momentum, double decay)
      : adam_(adam), values_(arrays<Array<float>>(values)), counts_(std::move(counts)), rate_(rate), momentum_(momentum),
        decay_(decay) {
    check(values_.size() == counts_.size(), "one count a parameter is wanted");
    for (size_t i = 0; i < values_.size(); i++) {
      check(0 <= counts_[i] && counts_[i] <= long(values_[i].size()), "a count is larger than its parameter");
      mean_.emplace_back(adam_ || momentum_ > 0 ? counts_[i] : 0);
      square_.emplace_back(adam_ ? counts_[i] : 0);
      for (long from = 0; from < counts_[i]; from += kPiece) pieces_.push_back({int(i), from});
    }
  }

  void step(const std::vector<std::optional<Array<const float>>>& gradients) {
    check(gradients.size() == values_.size(), "one gradient a parameter is wanted");
    for (size_t i = 0; i < values_.size(); i++)
      check(!gradients[i] || gradients[i]->size() == values_[i].size(), "a gradient has a wrong size");
    nb::gil_scoped_release release;
    steps_++;
    const double first = 1 - std::pow(0.9, steps_), second = 1 - std::pow(0.999, steps_);
    parallel(int(pieces_.size()), [&](int task) {
      const auto [i, from] = pieces_[task];
      if (!gradients[i]) return;
      const long count = std::min(kPiece, counts_[i] - from);
      const float* gradient = gradients[i]->data() + from;
      float* value = values_[i].data() + from;
      if (adam_)
        kernels().adam(value, gradient, mean_[i].data() + from, square_[i].data() + from, count,
                       float(rate_ / first), float(std::sqrt(second)), float(decay_));
      else
        kernels().sgd(value, gradient, momentum_ > 0 ? mean_[i].data() + from : nullptr, count, float(rate_),
                      float(momentum_), float(decay_), steps_ == 1);
    });
  }

 private:
  static constexpr long kPiece = 16384;
  bool adam_;
  std::vector<Array<float>> values_;
  std::vector<long> counts_;
  double rate_, momentum_, decay_;
  std::vector<std::vector<float>> mean_, square_;
  std::vector<std::pair<int, long>> pieces_;
  long steps_ = 0;
};

}  // namespace

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // a program may end with a network in its hands
  m.doc() = "Kernels that compute live connections only; nispa.engine.native is their only user.";
  m.def("isa", [] { return std::string(kernels().name); });
  m.def("set_threads", [](int count) { set_threads(count); });
  nb::class_<PyTape>(m, "Tape");
  nb::class_<PyPlan>(m, "Plan")
      .def("__init__", &make_plan)
      .def("forward", &forward, nb::arg("data"), nb::arg("rows").none(), nb::arg("scale"), nb::arg("shift"),
           nb::arg("idle"), nb::arg("keep"), nb::arg("logits").noconvert())
      .def("backward", &backward)
      .def("sums", &sums, nb::arg("data"), nb::arg("rows").none(), nb::arg("scale"), nb::arg("shift"),
           nb::arg("totals"))
      .def("copy_out", &copy_out, nb::arg("tape"), nb::arg("layer"), nb::arg("to").noconvert())
      .def("times", [](PyPlan& self) {
        return nb::make_tuple(nb::cast(self.plan->forward_seconds), nb::cast(self.plan->backward_seconds));
      })
      .def("clear_times", [](PyPlan& self) {
        for (auto* seconds : {&self.plan->forward_seconds, &self.plan->backward_seconds})
          std::fill(seconds->begin(), seconds->end(), 0.0);
      });
  nb::class_<Optimizer>(m, "Optimizer")
      .def(nb::init<bool, const nb::list&, std::vector<long>, double, double, double>())
      .def("step", &Optimizer::step);
}
