package deploy_test

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

// compose is the checked part of compose.yaml. Unknown keys are mistakes.
type compose struct {
	Name     string
	Services map[string]service
	Volumes  map[string]any
}

type service struct {
	Image  string
	Build  *struct{ Context, Dockerfile string }
	Deploy struct{ Replicas int }

	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Entrypoint  []string
	Command     []string
	Environment map[string]string
	Ports       []string
	Volumes     []string
	ExtraHosts  []string `yaml:"extra_hosts"`

	Healthcheck *struct {
		Test              []string
		Interval, Timeout string
		StartPeriod       string `yaml:"start_period"`
		Retries           int
	}

	ReadOnly    bool `yaml:"read_only"`
	Tmpfs       []string
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	StopGrace   string   `yaml:"stop_grace_period"`
	Restart     string
}

func readCompose(t *testing.T) compose {
	t.Helper()
	file, err := os.Open("compose.yaml")
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	loader, err := yaml.NewLoader(file, yaml.WithKnownFields(true))
	require.NoError(t, err)
	var c compose
	require.NoError(t, loader.Load(&c))
	return c
}

// after returns the argument that follows a flag.
func after(t *testing.T, args []string, flag string) string {
	t.Helper()
	i := slices.Index(args, flag)
	require.GreaterOrEqual(t, i, 0, flag)
	require.Less(t, i+1, len(args), flag)
	return args[i+1]
}
