// dpbench-worker --relay: forwards messages between the fronts (the dpbench processes, one per rank, that an external
// launcher such as torchrun starts) over the rendezvous store. The relay is a separate process beside the worker, takes
// no part in the measurement, and outlives the worker.
//
//   front -> relay   {"to":R,"message":{..}}      R: the rank of the receiving front
//   relay -> front   {"up":true}                  the relay has connected to the store
//                    {"message":{..}}             from another front; messages of one sender keep their order
//                    {"lost":"why","usage":false} the store is unreachable; usage: true if it is a user error
#pragma once

namespace dpbench {

int relay();

}  // namespace dpbench
