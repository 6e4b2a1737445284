package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAge(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"36h": 36 * time.Hour, "90m": 90 * time.Minute, "30d": 30 * Day, "1.5d": 36 * time.Hour, "2w": 14 * Day,
	} {
		var a Age
		require.NoError(t, a.Set(value), value)
		require.Equal(t, want, time.Duration(a), value)
	}
	for _, value := range []string{"", "d", "30", "-1d", "0h", "x", "1y", "NaNd", "Infd", "1e9w"} {
		var a Age
		require.ErrorContains(t, a.Set(value), "such as 36h, 30d or 12w", value)
	}
	for d, want := range map[time.Duration]string{0: "", 30 * Day: "30d", 36 * time.Hour: "36h0m0s"} {
		a := Age(d)
		require.Equal(t, want, a.String())
	}
}
