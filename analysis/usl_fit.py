"""Least squares for the Universal Scalability Law: γ follows from α and β, which are found within [0, 1] from several starts.

Levenberg and Marquardt's method for all starts at once. scipy's solver finds the same (a test compares them) and takes a
second to load, which every report would wait for.
"""

import numpy as np

STARTS = np.array([(alpha, beta) for alpha in (0.01, 0.3) for beta in (1e-5, 1e-2)])
MOST_STEPS = 200
CONVERGED = 1e-14  # of the cost: what a step has to gain, relative to it


def coefficients(n: np.ndarray, x: np.ndarray) -> tuple[float, float, float]:
    """γ, α, β of the bounded least squares of relative residuals (each step weighs alike, whatever its size)."""
    at = STARTS.copy()
    cost = _residuals(at, n, x)[0]
    damping = np.full(len(at), 1e-3)
    still = 0
    for _ in range(MOST_STEPS):
        tried = np.clip(at + _steps(at, damping, n, x), 0.0, 1.0)
        tried_cost = _residuals(tried, n, x)[0]
        better = tried_cost < cost
        gained = np.where(better, (cost - tried_cost) / np.maximum(cost, 1e-300), 0.0)
        at, cost = np.where(better[:, None], tried, at), np.where(better, tried_cost, cost)
        damping = np.clip(np.where(better, damping / 5, damping * 4), 1e-14, 1e14)
        still = still + 1 if gained.max() < CONVERGED else 0
        if still > 20:  # as many as the damping needs to find the way out of a bend
            break
    best = int(np.argmin(cost))
    gamma = _residuals(at[best : best + 1], n, x)[1]
    return float(gamma[0]), float(at[best, 0]), float(at[best, 1])


def _residuals(at: np.ndarray, n: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of each (α, β): cost, best γ, residuals γ·g − 1, and g."""
    g = n / (1 + at[:, :1] * (n - 1) + at[:, 1:] * n * (n - 1)) / x
    gamma = g.sum(axis=1) / (g**2).sum(axis=1)
    residuals = gamma[:, None] * g - 1
    return (residuals**2).sum(axis=1), gamma, residuals, g


def _steps(at: np.ndarray, damping: np.ndarray, n: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A step of each start; none along a bound that it would leave."""
    _, gamma, residuals, g = _residuals(at, n, x)
    slope = -(g**2) * x / n * gamma[:, None]  # of γ·g by the denominator
    by = np.stack([slope * (n - 1), slope * n * (n - 1)], axis=2)
    along = np.einsum("sn,snk->sk", g, by) / (g**2).sum(axis=1)[:, None]
    jacobian = by - g[:, :, None] * along[:, None, :]  # γ gives way
    gradient = np.einsum("snk,sn->sk", jacobian, residuals)
    free = ~(((at <= 0) & (gradient > 0)) | ((at >= 1) & (gradient < 0)))
    jacobian = jacobian * free[:, None, :]
    normal = np.einsum("snk,snl->skl", jacobian, jacobian)
    diagonal = np.einsum("skk->sk", normal)
    scale = np.where(free, np.maximum(diagonal, 1e-300), 1.0)
    normal = normal + np.eye(2) * (damping[:, None] * scale + ~free)[:, None, :]
    steps: np.ndarray = -np.linalg.solve(normal, (gradient * free)[:, :, None])[:, :, 0]
    return steps
