package config

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRules_haveValidDefaults(t *testing.T) {
	t.Parallel()
	walkKeys(reflect.TypeFor[Team](), "", func(pattern string, r rule) {
		require.NotEmpty(t, r.doc, pattern)
		require.Regexp(t, `^[a-z_]+$`, r.key, pattern)
		if r.def != nil {
			d := newDecoder("", Local, teamType)
			v := reflect.New(map[kind]reflect.Type{
				boolean: reflect.TypeFor[bool](), number: reflect.TypeFor[int](), str: reflect.TypeFor[string](),
			}[kindOf(r.def)]).Elem()
			d.decodeValue(r.def, pattern, v, r)
			require.Empty(t, d.problems, pattern)
		}
	})
}
