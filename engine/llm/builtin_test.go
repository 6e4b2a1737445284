package llm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"read_file", "write_file", "edit_file", "list_files", "search_files", "copy_path", RunCommand}, BuiltinNames(true, true))
	require.Equal(t, []string{RunCommand}, BuiltinNames(false, true))
	require.Empty(t, BuiltinNames(false, false))
	require.Equal(t, RunCommand, ShellTool().Name)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tool string
		args map[string]any
		says string // empty if the arguments fit
	}{
		"fitting":         {"read_file", map[string]any{"path": "a.md", "limit": int64(3)}, ""},
		"none needed":     {"list_files", nil, ""},
		"missing":         {RunCommand, nil, `run_command needs the argument "command"`},
		"misspelt":        {RunCommand, map[string]any{"comand": "ls"}, `run_command has no argument "comand"; did you mean "command"?`},
		"of another type": {"read_file", map[string]any{"path": int64(7)}, "wrong arguments for read_file"},
		"of a server":     {"mcp__web__get", map[string]any{"anything": true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CheckArguments(test.tool, test.args)
			if test.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.says)
			require.ErrorAs(t, err, new(ArgumentError))
		})
	}
}
