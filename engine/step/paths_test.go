package step_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/step"
)

// If Own is empty, paths in the workspace become relative to it.
func TestPaths_relative(t *testing.T) {
	t.Parallel()
	paths := step.Paths{
		Files: artifact.Manifest{Files: []artifact.File{{Path: "site/x.html"}, {Path: "run.sh"}}},
		Peers: map[int]string{2: "agents/agent_b/001/workspace"},
	}
	for text, want := range map[string]string{
		"See /workspace/site/x.html and site/x.html.":                               "See site/x.html and site/x.html.",
		"Run /workspace/run.sh.":                                                    "Run run.sh.",
		"`/tmp/w-1/conclave-step-12/files/run.sh`":                                  "`run.sh`",
		"In /tmp/conclave-step-12/files/, or without: /tmp/conclave-step-12/files.": "In ./, or without: ./.",
		"/workspace/peers/agent2/b.txt, peers/agent2/b.txt":                         "agents/agent_b/001/workspace/b.txt, agents/agent_b/001/workspace/b.txt",
		"/tmp/conclave-step-1/files/peers/agent2/b.txt":                             "agents/agent_b/001/workspace/b.txt",
		"peers/agent3/c.txt and peers/agent2.md":                                    "peers/agent3/c.txt and peers/agent2.md",
		"/workspace/elsewhere, /workspaces/run.sh, /workspace":                      "/workspace/elsewhere, /workspaces/run.sh, /workspace",
		"FROM node\nWORKDIR /workspace\nCOPY . /workspace/":                         "FROM node\nWORKDIR /workspace\nCOPY . /workspace/",
	} {
		require.Equal(t, want, paths.Rewrite(text))
	}
}
