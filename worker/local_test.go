package worker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/worker"
	"conclave/worker/settings"
)

// A step without a worker has what a worker's steps have, and leaves nothing.
func TestLocal(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("SOME_API_KEY", "a-secret-that-is-long")
	l, err := worker.OpenLocal(worker.Models{}, worker.NewTools(settings.Default()))
	require.NoError(t, err)
	require.DirExists(t, l.Scratch())
	p, err := l.Ports(config.Agent{ID: "agent_a", Backend: config.Backend{Type: config.Offline}, Tools: config.Tools{Files: true}})
	require.NoError(t, err)
	require.Equal(t, "it is [redacted]", string(p.Redact([]byte("it is a-secret-that-is-long"))))
	require.True(t, p.Repeatable("write_file"))
	opened, err := p.Tools(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.NotEmpty(t, opened.Tools())
	require.NoError(t, opened.Close())
	_, err = l.Ports(config.Agent{ID: "agent_a", Backend: config.Backend{Type: "openai", Model: "m", Provider: "nobody"}})
	require.True(t, activities.Lacks(err, activities.NoProvider))
	l.Close()
	require.NoDirExists(t, l.Scratch())
}
