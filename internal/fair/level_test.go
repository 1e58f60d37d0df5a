package fair

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestLevel(t *testing.T) {
	for _, row := range []struct {
		name   string
		amount float64
		claims [][2]float64 // limit, weight
		level  float64
	}{
		{"no claims", 5, nil, inf},
		{"nothing to give", 0, [][2]float64{{1, 1}}, 0},
		{"nothing to give, nothing wanted", 0, [][2]float64{{0, 1}, {0, 2}}, inf},
		{"debt", -3, [][2]float64{{0, 1}, {1, 2}}, 0},
		{"enough for all", 6, [][2]float64{{1, 1}, {4, 1}}, inf},
		{"just enough", 5, [][2]float64{{1, 1}, {4, 1}}, inf},
		{"one limit binds", 4, [][2]float64{{4, 1}, {1, 1}}, 3},
		{"none binds", 4, [][2]float64{{inf, 1}, {inf, 3}}, 1},
		{"all alike", 3, [][2]float64{{2, 1}, {2, 1}, {2, 1}}, 1},
		{"full at weight, not at size", 9, [][2]float64{{8, 8}, {4, 1}}, 1},
		{"a weight far below another", 3e9 + 1, [][2]float64{{3e9, 1e17}, {inf, 1e-3}}, 1e3},
		{"endless", inf, [][2]float64{{inf, 1}}, inf},
	} {
		t.Run(row.name, func(t *testing.T) {
			var claims []claim
			for _, c := range row.claims {
				claims = append(claims, newClaim(c[0], c[1]))
			}
			got := level(row.amount, claims)
			if math.IsInf(row.level, 1) {
				assert.Equal(t, row.level, got)
				return
			}
			assert.InDelta(t, row.level, got, 1e-6*row.level)
		})
	}
}

// The definition itself: at the level, claims add up to the amount, or there is none because they all fit.
func TestLevelGivesOutTheAmount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Float64Range(0, 1e6).Draw(t, "amount")
		claims := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) claim {
			return newClaim(
				rapid.OneOf(rapid.Float64Range(0, 1e6), rapid.SampledFrom([]float64{0, 1, 1000, inf})).Draw(t, "limit"),
				rapid.OneOf(rapid.Float64Range(1e-6, 1e6), rapid.Just(1.)).Draw(t, "weight"))
		}), 0, 50).Draw(t, "claims")
		height := level(amount, claims)
		sum := 0.0
		for _, c := range claims {
			sum += at(height, c.limit, c.weight)
		}
		if math.IsInf(height, 1) {
			assert.LessOrEqual(t, sum, amount*(1+1e-12))
		} else {
			assert.InDelta(t, amount, sum, 1e-9*amount)
		}
	})
}
