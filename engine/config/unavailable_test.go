package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnavailableKeysExistAndHaveTheValues(t *testing.T) {
	t.Parallel()
	known := map[string]rule{}
	walk(reflect.TypeFor[Team](), "", func(pattern string, r rule) { known[pattern] = r })
	for _, u := range unavailable {
		require.Contains(t, known, u.key)
		require.Subset(t, known[u.key].enum, u.values, u.key)
	}
}

func TestWhatIsAvailable(t *testing.T) {
	t.Parallel()
	var all, free []string
	walk(reflect.TypeFor[Team](), "", func(pattern string, _ rule) { all = append(all, pattern) })
	for _, pattern := range all {
		section := slices.ContainsFunc(all, func(other string) bool {
			return strings.HasPrefix(other, pattern+".") || strings.HasPrefix(other, pattern+"[]")
		})
		refused := slices.ContainsFunc(unavailable, func(u restriction) bool {
			return u.values == nil && (u.key == pattern || strings.HasPrefix(pattern, u.key+"[]"))
		})
		if !section && !refused {
			free = append(free, pattern)
		}
	}
	require.Equal(t, []string{
		"agents[].id",
		"agents[].backend.type",
		"agents[].backend.provider",
		"agents[].backend.model",
		"agents[].backend.base_url",
		"agents[].backend.api_key_env",
		"agents[].backend.params",
		"agents[].system_message",
		"agents[].tools.files",
		"orchestrator.on_split",
		"orchestrator.max_revotes",
		"orchestrator.max_steps_per_agent",
		"orchestrator.skip_final_presentation",
		"orchestrator.on_agent_failure",
		"timeout_settings.orchestrator_timeout_seconds",
	}, free)
}

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	walk(reflect.TypeFor[Team](), "", func(pattern string, r rule) {
		require.NotEmpty(t, r.doc, pattern)
		require.Regexp(t, `^[a-z_]+$`, r.key, pattern)
		if r.def != nil {
			d := decoder{}
			v := reflect.New(map[kind]reflect.Type{
				boolean: reflect.TypeFor[bool](), number: reflect.TypeFor[int](), text: reflect.TypeFor[string](),
			}[r.def.kind]).Elem()
			d.decode(r.def, pattern, v, r)
			require.Empty(t, d.problems, pattern)
		}
	})
}
