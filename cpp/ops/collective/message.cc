// send and recv: an array is sent from one rank to another, and its gradient is sent back.
#include "cpp/ops/collective/params.h"
#include "cpp/ops/collective/reductions.h"
#include "cpp/ops/collective/run.h"
#include "cpp/ops/registration.h"

namespace mxlite::collective {
namespace {

constexpr const char* kSendOp = "_contrib_send";
constexpr const char* kReceiveOp = "_contrib_recv";

void check_peer(const char* op, const char* parameter, int32_t peer, int32_t process_set) {
  const ProcessGroup group = group_of(op, process_set);
  MX_CHECK(group.has(peer) && peer != group.rank, op, ": ", parameter,
           " must be another rank of process set ", process_set, " (", list_of(group.ranks),
           "), got ", peer, " on rank ", group.rank);
}

Specs infer_send(const SendParams& p, std::span<const TensorSpec> in) {
  check_peer(kSendOp, "destination", p.destination, p.process_set);
  return Specs{TensorSpec{Shape{1}, in[0].dtype}};
}

Specs infer_receive(const ReceiveParams& p, std::span<const TensorSpec> in) {
  check_peer(kReceiveOp, "source", p.source, p.process_set);
  return Specs{in[0]};
}

std::vector<ValueRef> send_gradient(GradBuilder& g) {
  const auto& p = g.params<SendParams>();
  return {g.emit(kReceiveOp, {g.input(0)},
                 {{"source", int64_t{p.destination}}, {"process_set", int64_t{p.process_set}}})};
}

std::vector<ValueRef> receive_gradient(GradBuilder& g) {
  const auto& p = g.params<ReceiveParams>();
  g.emit(kSendOp, {g.output_grad(0)},
         {{"destination", int64_t{p.source}}, {"process_set", int64_t{p.process_set}}});
  return {ValueRef{}};  // uses only the shape of the argument
}

// Returns a text that is the same for sender and receiver, so that their calls can be matched.
std::string text_of(int from, int to) { return str("message from rank ", from, " to rank ", to); }

}  // namespace

static const Registration message_registration(Stage::kSchemas, [](OpRegistry& ops) {
  add(ops,
      OpBuilder<SendParams>(kSendOp)
          .doc(
              "Sends an array to another rank, which calls recv. Messages from one rank to another "
              "arrive in the order of the calls. The result is a zero, and backward from it "
              "receives the array's gradient from the other rank.")
          .shapes("any shape -> (1,)")
          .infer(infer_send)
          .gradient(send_gradient),
      [](const void* params, const TensorSpec&, Terms& terms) {
        const auto& p = *static_cast<const SendParams*>(params);
        terms.kind = Kind::kSend;
        terms.process_set = p.process_set;
        terms.peer = p.destination;
        terms.text = text_of(group_of(kSendOp, p.process_set).rank, p.destination);
      });
  add(ops,
      OpBuilder<ReceiveParams>(kReceiveOp)
          .doc("Receives an array that another rank sends. Shape and dtype are those of `data`, "
               "whose values are not read. If `data` is differentiated, backward sends the "
               "result's gradient to the other rank; the gradient of `data` is 0.")
          .shapes("any shape -> the same shape")
          .infer(infer_receive)
          .gradient(receive_gradient),
      [](const void* params, const TensorSpec&, Terms& terms) {
        const auto& p = *static_cast<const ReceiveParams*>(params);
        terms.kind = Kind::kReceive;
        terms.process_set = p.process_set;
        terms.peer = p.source;
        terms.text = text_of(p.source, group_of(kReceiveOp, p.process_set).rank);
      });
});

}  // namespace mxlite::collective
