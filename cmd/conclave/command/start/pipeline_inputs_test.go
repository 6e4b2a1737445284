package start

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/llm"
)

func TestInputFlags(t *testing.T) {
	t.Parallel()
	schema, err := llm.ReadDataSchema([]byte(`{"type":"object","properties":{"branch":{"type":"string"},"limit":{"type":"integer"},"tags":{"type":"array"}},"required":["branch"]}`))
	require.NoError(t, err)
	p := config.Pipeline{Inputs: schema}
	file := filepath.Join(t.TempDir(), "in.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"branch":"old","limit":1}`), 0o600))
	inputs, err := (&inputFlags{file: file, pairs: []string{"branch=7", "limit=20", `tags=["a"]`, "free=a=b"}}).readInputs(p)
	require.NoError(t, err)
	require.JSONEq(t, `{"branch":"7","limit":20,"tags":["a"],"free":"a=b"}`, string(inputs), "a text if the schema says so")

	for says, f := range map[string]inputFlags{
		"the inputs do not fit the pipeline's schema: at the top: missing property 'branch'": {},
		`--input "branch": write it as NAME=VALUE`:                                           {pairs: []string{"branch"}},
		"at /limit":                      {pairs: []string{"branch=a", "limit=many"}},
		"name a file with a JSON object": {file: filepath.Join(t.TempDir(), "none")},
	} {
		_, err := f.readInputs(p)
		require.ErrorContains(t, err, says)
	}
	_, err = (&inputFlags{pairs: []string{"a=b"}}).readInputs(config.Pipeline{})
	require.ErrorContains(t, err, "the pipeline takes no inputs")
}
