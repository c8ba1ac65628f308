from hypothesis import given
from hypothesis import strategies as st

from trimtab.replay.scaling import Scaling, fit_length, fit_rate
from trimtab.replay.trace import TraceRequest

REQUESTS = st.builds(
    TraceRequest,
    arrival_s=st.floats(0, 1e5),
    prompt_tokens=st.integers(0, 200_000),
    output_tokens=st.integers(0, 20_000),
)


@given(
    request=REQUESTS,
    rate=st.floats(0.001, 1000),
    length=st.floats(0.0001, 10),
    context=st.integers(8, 4096),
)
def test_a_scaled_request_always_fits_the_context(
    request: TraceRequest, rate: float, length: float, context: int
) -> None:
    (scaled,) = Scaling(rate, length).apply([request], context)
    assert scaled.prompt_tokens >= 1
    assert scaled.output_tokens >= 1
    assert scaled.prompt_tokens + scaled.output_tokens <= context


def test_the_fitted_rate_is_the_wanted_share_of_the_capacity() -> None:
    requests = [TraceRequest(float(i), 10, 10) for i in range(101)]
    rate = fit_rate(requests, capacity_per_s=8.0, share=0.5)
    scaled = Scaling(rate, 1.0).apply(requests, 1024)
    assert (len(scaled) - 1) / scaled[-1].arrival_s == 4.0


def test_lengths_are_scaled_down_to_the_target_and_never_up() -> None:
    assert fit_length([TraceRequest(0, 900, 100)], 100) == 0.1
    assert fit_length([TraceRequest(0, 9, 1)], 100) == 1.0


def test_a_trace_of_one_moment_keeps_its_rate() -> None:
    assert fit_rate([TraceRequest(0, 1, 1)], 5.0, 0.5) == 1.0
