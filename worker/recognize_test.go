package worker

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecognize(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]bool{
		"providers: {}":             true,
		"max_concurrent_steps: 3":   true,
		"provders: {}\nsandbox: {}": true,
		"agents: []":                false,
		"agent: {}\nproviders: {}":  false,
		"orchestrator: {}":          false,
		"start: a\nsteps: []":       false,
		"":                          false,
		"- a list":                  false,
		"providers: {not: [yaml":    false,
	} {
		require.Equal(t, want, RecognizeSettings([]byte(file)), file)
	}
}
