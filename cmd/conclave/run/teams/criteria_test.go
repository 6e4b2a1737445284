package teams

import (
	"encoding/json"
	"testing"

	"conclave/cmd/conclave/cli"
	"conclave/engine/config"

	"github.com/stretchr/testify/require"
)

func TestCriteria_listsAndPrints(t *testing.T) {
	s := newShell(t)
	code, stdout, stderr := s.Run("config", "criteria")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Regexp(t, `(?m)^code +5 criteria +a program`, stdout)

	code, stdout, _ = s.Run("config", "criteria", "code")
	require.Equal(t, cli.ExitOK, code)
	require.Regexp(t, `(?m)^E1 \[primary\] The program does`, stdout)
	require.Regexp(t, `(?s)   3    The main case fails\..*  10    Each stated case`, stdout, "scores are in order")

	code, stdout, stderr = s.Run("config", "criteria", "coed")
	require.Equal(t, cli.ExitUsage, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "did you mean code?")
}

// The JSON of a set is a file for --eval-criteria.
func TestCriteria_jsonIsReadBack(t *testing.T) {
	s := newShell(t)
	code, stdout, stderr := s.Run("config", "criteria", "writing", "--json")
	require.Equal(t, cli.ExitOK, code, stderr)
	criteria, err := config.ParseCriteria("criteria.json", []byte(stdout))
	require.NoError(t, err)
	writing, _ := config.PresetNamed("writing")
	require.Equal(t, writing.Criteria, criteria)

	_, stdout, _ = s.Run("config", "criteria", "--json")
	var all []config.Preset
	require.NoError(t, json.Unmarshal([]byte(stdout), &all))
	require.Len(t, all, len(config.Presets()))
}
