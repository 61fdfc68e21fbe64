"""Strategies on PyTorch's DistributedDataParallel or with all-reduces of their own, each with one mistake that people
make, and the right ones. The test python_strategies names the check that must fail for each mistake."""
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
