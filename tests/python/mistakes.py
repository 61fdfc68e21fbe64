"""Strategies on PyTorch's DistributedDataParallel or with all-reduces of their own, each with one mistake that people
make, and the right ones. The test python_wrong names the check that must fail for each mistake."""
import contextlib
import threading

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import dpbench


class Right(dpbench.Strategy):
    """a right strategy on DistributedDataParallel, without mistakes"""
    options = {}

    def __init__(self, setup):
        super().__init__(setup)
        self.model = setup.model()
        self.ddp = DistributedDataParallel(self.model, process_group=setup.group, **self.options)
        self.optimizer = setup.optimizer(self.trained())

    def trained(self):
        return list(self.model.parameters())

    def step(self, step, micro):
        self.optimizer.zero_grad()
        result = self.backward(step, micro)
        self.update(step)
        return result

    def backward(self, step, micro):
        return self.passes(step, micro, self.ddp, quiet=self.ddp.no_sync)


dpbench.strategy("m-none")(Right)


class InACallback(Right):
    """a right strategy whose communication hook waits for a second collective in the callback of the first"""

    def __init__(self, setup):
        super().__init__(setup)
        self.ddp.register_comm_hook(setup.group, self.averaged)

    @staticmethod
    def averaged(group, bucket):
        def divided(done):
            world = torch.ones(())
            dist.all_reduce(world, group=group)
            return done.value()[0] / world
        return dist.all_reduce(bucket.buffer(), group=group, async_op=True).get_future().then(divided)


dpbench.strategy("m-reduces-in-a-callback")(InACallback)


class InAThread(Right):
    """a right strategy whose update runs in a thread of its own, for which everything else waits"""
    ending = None

    def update(self, step):
        self.ending = threading.Thread(target=super().update, args=[step])
        self.ending.start()


def waiting(method):
    def called(self, *args):
        if self.ending is not None:
            self.ending.join()
        return getattr(super(InAThread, self), method)(*args)
    return called


for method in ("step", "forward", "finish", "parameters", "gradients", "buffers", "state", "load"):
    setattr(InAThread, method, waiting(method))
dpbench.strategy("m-update-in-a-thread")(InAThread)


def mistake(name):
    return dpbench.strategy(name)


@mistake("m-sums-micro-batches")
class SumsMicroBatches(Right):
    """does not divide the loss by the number of micro-batches"""

    def backward(self, step, micro):
        output, loss = super().backward(step, micro)
        for parameter in self.trained():
            if parameter.grad is not None:
                parameter.grad *= len(micro)
        return output, loss * len(micro)


@mistake("m-reduces-each-micro-batch")
class ReducesEachMicroBatch(Right):
    """forgets no_sync, so every micro-batch is reduced"""

    def backward(self, step, micro):
        return self.passes(step, micro, self.ddp)


@mistake("m-never-reduces")
class NeverReduces(Right):
    """runs the whole step under no_sync, so nothing is reduced"""

    def backward(self, step, micro):
        with self.ddp.no_sync():
            return self.passes(step, micro, self.ddp)


@mistake("m-no-zero-grad")
class NoZeroGrad(Right):
    """forgets zero_grad, so gradients add up over steps"""

    def step(self, step, micro):
        result = self.backward(step, micro)
        self.update(step)
        return result


@mistake("m-calls-the-module")
class CallsTheModule(Right):
    """trains the module itself instead of its DistributedDataParallel wrapper"""

    def backward(self, step, micro):
        return self.passes(step, micro)


@mistake("m-module-forgotten")
class ModuleForgotten(Right):
    """reports and loads the parameters of the wrapper instead of those of its module"""

    def parameters(self):
        return dict(self.ddp.named_parameters())

    def load(self, parameters, buffers, state):
        super().load({name.removeprefix("module."): tensor for name, tensor in parameters.items()}, buffers, state)


@mistake("m-no-buffers")
class NoBuffers(Right):
    """broadcasts no buffers, but promises those of rank 0"""
    options = {"broadcast_buffers": False}


@mistake("m-no-initial-broadcast")
class NoInitialBroadcast(Right):
    """starts each rank with its own weights"""
    options = {"init_sync": False}


@mistake("m-clips-after-the-step")
class ClipsAfterTheStep(Right):
    """clips gradients only after the optimizer has used them"""

    def update(self, step):
        self.optimizer.step()
        self.setup.clip(self.model.parameters())


@mistake("m-clips-values")
class ClipsValues(Right):
    """clips each gradient element instead of the norm"""

    def update(self, step):
        if self.setup.clip_norm:
            torch.nn.utils.clip_grad_value_(self.model.parameters(), self.setup.clip_norm)
        self.optimizer.step()


@mistake("m-hook-doubles")
class HookDoubles(Right):
    """a gradient hook doubles the first parameter's gradient"""

    def __init__(self, setup):
        super().__init__(setup)
        self.trained()[0].register_hook(lambda gradient: gradient * 2)


@mistake("m-leaves-out-a-parameter")
class LeavesOutAParameter(Right):
    """leaves the last parameter out of the optimizer"""

    def trained(self):
        return super().trained()[:-1]


@mistake("m-other-learning-rate")
class OtherLearningRate(Right):
    """multiplies the learning rate by the number of ranks"""

    def update(self, step):
        self.setup.clip(self.model.parameters())
        for group in self.optimizer.param_groups:
            group["lr"] = self.setup.learning_rate * self.setup.world
        self.optimizer.step()


@mistake("m-decays-in-place")
class DecaysInPlace(Right):
    """shrinks the parameters in place after each step"""

    def update(self, step):
        super().update(step)
        with torch.no_grad():
            for parameter in self.trained():
                parameter.mul_(0.999)


@mistake("m-stale")
class Stale(Right):
    """applies the gradients of the previous step"""
    before = None

    def update(self, step):
        now = [parameter.grad for parameter in self.trained()]
        if self.before is not None:
            for parameter, gradient in zip(self.trained(), self.before):
                parameter.grad = gradient
        self.before = [gradient.clone() if gradient is not None else None for gradient in now]
        super().update(step)


@mistake("m-first-output")
class FirstOutput(Right):
    """returns the first micro-batch's output alone"""

    def backward(self, step, micro):
        output, loss = super().backward(step, micro)
        return output[:micro[0].ids.shape[0]], loss


@mistake("m-sum-of-loss")
class SumOfLoss(Right):
    """returns the loss summed over the ranks"""

    def backward(self, step, micro):
        output, loss = super().backward(step, micro)
        loss = loss.clone()
        dist.all_reduce(loss)
        return output, loss


@mistake("m-evaluates-in-training-mode")
class EvaluatesInTrainingMode(Right):
    """evaluates with batch statistics and dropout"""

    def forward(self, batch):
        self.model.step = 0
        with torch.no_grad(), self.setup.autocast():
            output = self.model(batch.input, batch.ids)
        return output.float() if self.setup.dtype == torch.bfloat16 else output


@mistake("m-evaluates-once-a-step")
class EvaluatesOnceAStep(Right):
    """keeps the output of an evaluation until the next step"""
    kept = None

    def step(self, step, micro):
        self.kept = None
        return super().step(step, micro)

    def forward(self, batch):
        if self.kept is None or len(self.kept) != len(batch.ids):
            self.kept = super().forward(batch)
        return self.kept


@mistake("m-hides-nan-in-outputs")
class HidesNanInOutputs(Right):
    """returns numbers in place of NaN in the output"""

    def backward(self, step, micro):
        output, loss = super().backward(step, micro)
        return output.nan_to_num(), loss


@mistake("m-hides-nan-in-buffers")
class HidesNanInBuffers(Right):
    """returns numbers in place of NaN in the buffers"""

    def update(self, step):
        super().update(step)
        with torch.no_grad():
            for buffer in self.model.buffers():
                buffer.nan_to_num_()


@mistake("m-no-set-epoch")
class NoSetEpoch(Right):
    """trains the first epoch's batches in every epoch, as a DistributedSampler does without set_epoch"""

    def step(self, step, micro):
        self.epoch = getattr(self, "epoch", {})
        return super().step(step, self.epoch.setdefault(step % 2, micro))


@mistake("m-no-sync-around-backward")
class NoSyncAroundBackward(Right):
    """enters no_sync for the backward pass alone, but the forward pass decides what is reduced"""

    def backward(self, step, micro):
        self.model.step = step
        outputs, losses = [], []
        for batch in micro:
            outputs.append(self.ddp(batch.input, batch.ids))
            losses.append(self.setup.loss(outputs[-1], batch.target) / len(micro))
            with contextlib.nullcontext() if batch is micro[-1] else self.ddp.no_sync():
                losses[-1].backward()
        return torch.cat([output.detach() for output in outputs]), sum(loss.detach() for loss in losses)


@mistake("m-no-sync-for-the-last-pass")
class NoSyncForTheLastPass(Right):
    """reduces all micro-batches but the last"""

    def backward(self, step, micro):
        if len(micro) == 1:
            return self.passes(step, micro, self.ddp)
        first, loss = self.passes(step, micro[:-1], self.ddp)
        with self.ddp.no_sync():
            last, last_loss = self.passes(step, micro[-1:], self.ddp)
        share = 1 / len(micro)
        for parameter in self.trained():
            parameter.grad *= share
        return torch.cat([first, last]), loss * (1 - share) + last_loss * share


@mistake("m-zeroes-in-each-micro-batch")
class ZeroesInEachMicroBatch(Right):
    """zeroes the gradients before each micro-batch, so the last one overwrites the others"""

    def backward(self, step, micro):
        outputs, losses = [], []
        for batch in micro:
            self.optimizer.zero_grad()
            output, loss = self.passes(step, [batch], self.ddp)
            outputs.append(output)
            losses.append(loss)
        for parameter in self.trained():
            parameter.grad /= len(micro)
        return torch.cat(outputs), sum(losses) / len(micro)


@mistake("m-hook-sums")
class HookSums(Right):
    """a communication hook sums gradients without dividing"""

    def __init__(self, setup):
        super().__init__(setup)
        self.ddp.register_comm_hook(setup.group, self.summed)

    @staticmethod
    def summed(group, bucket):
        summed = dist.all_reduce(bucket.buffer(), group=group, async_op=True).get_future()
        return summed.then(lambda done: done.value()[0])


@mistake("m-steps-twice")
class StepsTwice(Right):
    """steps the optimizer twice"""

    def update(self, step):
        super().update(step)
        self.optimizer.step()


@mistake("m-never-steps")
class NeverSteps(Right):
    """forgets optimizer.step()"""

    def update(self, step):
        self.setup.clip(self.model.parameters())


@mistake("m-only-rank-0-steps")
class OnlyRank0Steps(Right):
    """steps the optimizer on rank 0 alone"""

    def update(self, step):
        if self.setup.rank == 0:
            super().update(step)


@mistake("m-targets-in-reverse")
class TargetsInReverse(Right):
    """compares the outputs with targets in another order"""

    def step(self, step, micro):
        return super().step(step, [batch._replace(target=batch.target.flip(0)) for batch in micro])


@mistake("m-loss-of-rank-0")
class LossOfRank0(Right):
    """returns the loss of rank 0"""

    def backward(self, step, micro):
        output, loss = super().backward(step, micro)
        loss = loss.clone()
        dist.broadcast(loss, src=0)
        return output, loss


class ByHand(Right):
    """all-reduces each gradient itself"""

    def backward(self, step, micro):
        result = self.passes(step, micro)
        self.reduce([parameter.grad for parameter in self.trained() if parameter.grad is not None])
        return result

    def reduce(self, gradients):
        for gradient in gradients:
            dist.all_reduce(gradient)
            gradient /= self.setup.world


@mistake("m-clips-before-the-reduction")
class ClipsBeforeTheReduction(ByHand):
    """clips each rank's own gradients before the reduction"""

    def reduce(self, gradients):
        self.setup.clip(self.model.parameters())
        super().reduce(gradients)

    def update(self, step):
        self.optimizer.step()


@mistake("m-masks-nan-on-some-ranks")
class MasksNanOnSomeRanks(ByHand):
    """masks NaN in gradients before the reduction, but not on rank 1"""

    def reduce(self, gradients):
        for gradient in gradients if self.setup.rank != 1 else ():
            gradient.nan_to_num_(0, 0, 0)
        super().reduce(gradients)


@mistake("m-clips-matrices-and-vectors-apart")
class ClipsMatricesAndVectorsApart(Right):
    """clips matrices and vectors each by their own norm"""

    def clip(self):
        for matrices in (True, False):
            self.setup.clip([parameter for parameter in self.trained() if (parameter.dim() > 1) == matrices])


@mistake("m-waits-for-the-first-reduction")
class WaitsForTheFirstReduction(ByHand):
    """starts all reductions and waits for the first one"""

    def reduce(self, gradients):
        works = [dist.all_reduce(gradient, async_op=True) for gradient in gradients]
        works[0].wait()
        for gradient in gradients:
            gradient /= self.setup.world


@mistake("m-load-keeps-the-given-tensors")
class LoadKeepsTheGivenTensors(Right):
    """load() trains the tensors that it gets instead of copies"""

    def load(self, parameters, buffers, state):
        super().load(parameters, buffers, state)
        for name, parameter in self.model.named_parameters():
            parameter.data = parameters[name]


@mistake("m-skips-each-fiftieth-update")
class SkipsEachFiftiethUpdate(Right):
    """leaves out the optimizer's step in each fiftieth step"""

    def update(self, step):
        if step % 50 != 49:
            super().update(step)


@mistake("m-reduces-if-asked-each-step")
class ReducesIfAskedEachStep(ByHand):
    """reduces only while parameters() is called about as often as step()"""
    asked = steps = 0

    def parameters(self):
        self.asked += 1
        return super().parameters()

    def reduce(self, gradients):
        self.steps += 1
        if self.steps < 3 or self.asked * 3 >= self.steps:
            super().reduce(gradients)


@mistake("m-reduces-half")
class ReducesHalf(ByHand):
    """all-reduces every second gradient"""

    def reduce(self, gradients):
        super().reduce(gradients[::2])


@mistake("m-forgets-to-divide")
class ForgetsToDivide(ByHand):
    """sums gradients over the ranks without dividing"""

    def reduce(self, gradients):
        for gradient in gradients:
            dist.all_reduce(gradient)


@mistake("m-broadcasts-rank-0")
class BroadcastsRank0(ByHand):
    """broadcasts rank 0's gradients instead of averaging"""

    def reduce(self, gradients):
        for gradient in gradients:
            dist.broadcast(gradient, src=0)


@mistake("m-takes-the-maximum")
class TakesTheMaximum(ByHand):
    """all-reduces with the maximum"""

    def reduce(self, gradients):
        for gradient in gradients:
            dist.all_reduce(gradient, op=dist.ReduceOp.MAX)


@mistake("m-adds-in-place-later")
class AddsInPlaceLater(ByHand):
    """adds the step before to the averaged gradients, in place"""
    before = None

    def reduce(self, gradients):
        super().reduce(gradients)
        now = [gradient.clone() for gradient in gradients]
        for gradient, old in zip(gradients, self.before or ()):
            gradient.add_(old)
        self.before = now


@mistake("m-sends-bfloat16")
class SendsBfloat16(ByHand):
    """sends gradients in bfloat16 without declaring it"""

    def reduce(self, gradients):
        for gradient in gradients:
            narrow = gradient.to(torch.bfloat16)
            dist.all_reduce(narrow)
            gradient.copy_(narrow / self.setup.world)


@mistake("m-divides-twice")
class DividesTwice(Right):
    """divides gradients that DistributedDataParallel has averaged"""

    def update(self, step):
        for parameter in self.trained():
            if parameter.grad is not None:
                parameter.grad /= self.setup.world
        super().update(step)


@mistake("m-reduces-twice")
class ReducesTwice(Right):
    """all-reduces gradients that DistributedDataParallel has reduced already"""

    def backward(self, step, micro):
        result = super().backward(step, micro)
        for parameter in self.trained():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
        return result
