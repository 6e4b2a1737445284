package start

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/engine/files/artifact"
)

// started opens a session directory with the flags of a step and starts from them.
func started(t *testing.T, dir string, args ...string) (*stepRunner, error) {
	t.Helper()
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	s := &stepRunner{cli: &cli.CLI{Stderr: &bytes.Buffer{}, DataDir: t.TempDir()}, store: store}
	s.dir = dir
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.material.Add(set)
	require.NoError(t, set.Parse(args))
	return s, s.startFrom(t.Context())
}

// The first step with --base fixes the files that all steps of a directory start from.
func TestStartFrom(t *testing.T) {
	t.Parallel()
	dir, project := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(project, "main.go"), []byte("package main\n"), 0o644))
	s, err := started(t, dir)
	require.NoError(t, err)
	require.Nil(t, s.layout.Base(), "a directory without a base")

	s, err = started(t, dir, "--base", project, "--context", project+"=docs")
	require.NoError(t, err)
	require.True(t, s.layout.Base().Has("main.go"))
	require.Len(t, s.contexts, 1)
	require.Equal(t, "docs", s.contexts[0].Name)

	later, err := started(t, dir)
	require.NoError(t, err)
	require.Equal(t, s.layout.Base().Hash(), later.layout.Base().Hash())
	same, err := started(t, dir, "--base", project, "--context", project+"=docs")
	require.NoError(t, err)
	require.Equal(t, s.layout.Base().Hash(), same.layout.Base().Hash())

	require.NoError(t, os.WriteFile(filepath.Join(project, "main.go"), []byte("package other\n"), 0o644))
	_, err = started(t, dir, "--base", project, "--context", project+"=docs")
	require.ErrorContains(t, err, "start from other files")
}
