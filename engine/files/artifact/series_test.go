package artifact_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

func TestSeries(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	series := artifact.Series[string]{Store: store, Key: func(n int) string { return "claims/" + strconv.Itoa(n) }}
	claim := func(from int, who string) (int, bool) {
		t.Helper()
		n, created, err := series.Claim(t.Context(), from, who, func(_ int, other string) (bool, error) {
			if other == "sealed" {
				return false, errors.New("no more")
			}
			return other == who, nil
		})
		require.NoError(t, err)
		return n, created
	}
	for i, who := range []string{"a", "b", "c"} {
		n, created := claim(1, who)
		require.Equal(t, i+1, n)
		require.True(t, created)
	}
	n, created := claim(1, "b")
	require.Equal(t, 2, n)
	require.False(t, created, "a repetition finds its own")
	n, _ = claim(4, "sealed")
	require.Equal(t, 4, n)
	_, _, err = series.Claim(t.Context(), 3, "d", func(_ int, other string) (bool, error) {
		return false, map[string]error{"sealed": errors.New("no more")}[other]
	})
	require.EqualError(t, err, "no more")

	var all []string
	for document, err := range series.From(t.Context(), 2) {
		require.NoError(t, err)
		all = append(all, document)
	}
	require.Equal(t, []string{"b", "c", "sealed"}, all)
}
