package nearest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/nearest"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"model", "model", 0},
		{"abdc", "abcd", 1}, // swapped
		{"modl", "model", 1},
		{"modell", "model", 1},
		{"nodel", "model", 1},
		{"kitten", "sitting", 3},
	} {
		require.Equal(t, tt.want, nearest.Distance(tt.a, tt.b), tt.a)
		require.Equal(t, tt.want, nearest.Distance(tt.b, tt.a), tt.b)
	}
}
