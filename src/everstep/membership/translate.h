// membership: messages as plain values and as the protos of the wire. Internal to the room.
//
// What arrives comes from a process that holds the job's secret, yet may be of another build: a
// message of no known kind is nullopt and is passed over.
#pragma once

#include <optional>

#include "everstep/membership/messages.h"
#include "everstep/wire/control.pb.h"

namespace everstep {

wire::FromWorker ToProto(const WorkerMessage& message);
wire::ToWorker ToProto(const WorkerOrder& order);
wire::FromAgent ToProto(const AgentMessage& message);
wire::ToAgent ToProto(const AgentOrder& order);

std::optional<WorkerMessage> FromProto(const wire::FromWorker& proto);
std::optional<WorkerOrder> FromProto(const wire::ToWorker& proto);
std::optional<AgentMessage> FromProto(const wire::FromAgent& proto);
std::optional<AgentOrder> FromProto(const wire::ToAgent& proto);

}  // namespace everstep
