package deploy_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"conclave/cmd/conclave/api/access"
	"conclave/worker"
)

// compose is the checked part of compose.yaml. Unknown keys are mistakes.
type compose struct {
	Name     string
	Services map[string]service
	Configs  map[string]struct{ Content string }
	Volumes  map[string]any
}

type service struct {
	Image  string
	Build  *struct{ Context, Dockerfile, Target string }
	Deploy struct{ Replicas int }

	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Entrypoint  []string
	Command     []string
	Environment map[string]string
	Ports       []string
	Volumes     []string
	Configs     []struct{ Source, Target string }
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

// The parser of the Compose Specification accepts the file.
func TestCompose_specification(t *testing.T) {
	t.Parallel()
	program := checker(t, "COMPOSE_BIN")
	data, err := os.ReadFile("compose.yaml")
	require.NoError(t, err)
	broken := filepath.Join(t.TempDir(), "compose.yaml")
	require.NoError(t, os.WriteFile(broken, bytes.ReplaceAll(data, []byte("healthcheck:"), []byte("healthchek:")), 0o600))
	said, err := exec.CommandContext(t.Context(), program, "compose.yaml").CombinedOutput()
	require.NoError(t, err, string(said))
	said, err = exec.CommandContext(t.Context(), program, broken).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "healthchek", "it finds a key that does not exist")
}

// after returns the argument that follows a flag.
func after(t *testing.T, args []string, flag string) string {
	t.Helper()
	i := slices.Index(args, flag)
	require.GreaterOrEqual(t, i, 0, flag)
	require.Less(t, i+1, len(args), flag)
	return args[i+1]
}

// serve admits the key that the comment names, and offers the teams of the workers in their bucket.
func TestCompose_serve(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	s, worker := c.Services["serve"], c.Services["worker"]
	require.Equal(t, "serve", s.Command[0])
	require.Equal(t, after(t, worker.Command, "--bucket"), after(t, s.Command, "--bucket"))
	require.Equal(t, after(t, worker.Command, "--worker-config"), after(t, s.Command, "--worker-config"))
	require.Subset(t, worker.Volumes, s.Volumes)
	require.Contains(t, readDockerfile(t).all("FROM"), "scratch AS "+s.Build.Target)
	for name, value := range s.Environment {
		require.Equal(t, worker.Environment[name], value, name)
	}
	require.Len(t, s.Configs, 1)
	require.Equal(t, after(t, s.Command, "--keys"), s.Configs[0].Target)
	line := regexp.MustCompile(`\$\{SERVE_KEY_SHA256:-(\w+)\}`).ReplaceAllString(c.Configs[s.Configs[0].Source].Content, "$1")
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	keys, err := access.LoadKeys(file)
	require.NoError(t, err)
	caller, known := keys.Find("trial")
	require.True(t, known)
	require.Equal(t, "trial", caller.Name)
}

// Prometheus uses the port at which the workers serve, and Grafana finds Prometheus and the
// dashboard.
func TestCompose_isWatched(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	s, err := worker.LoadSettings("worker.yaml")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(s.MetricsAddress)
	require.NoError(t, err)
	var scrape struct {
		RuleFiles []string `yaml:"rule_files"`
		Scrape    []struct {
			DNS []struct {
				Names []string
				Port  string
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	data, err := os.ReadFile("prometheus/compose.yml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, &scrape))
	require.Equal(t, port, scrape.Scrape[0].DNS[0].Port)
	require.Equal(t, []string{"worker"}, scrape.Scrape[0].DNS[0].Names)
	require.Contains(t, c.Services, "worker")
	for _, rules := range scrape.RuleFiles {
		require.FileExists(t, filepath.Join("prometheus", rules))
	}
	var sources struct{ Datasources []struct{ Type, URL string } }
	data, err = os.ReadFile("grafana/provisioning/datasources/prometheus.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, &sources))
	require.Equal(t, "http://prometheus:9090", sources.Datasources[0].URL)
	var boards struct {
		Providers []struct{ Options struct{ Path string } }
	}
	data, err = os.ReadFile("grafana/provisioning/dashboards/conclave.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, &boards))
	require.Contains(t, c.Services["grafana"].Volumes, "./grafana/conclave.json:"+boards.Providers[0].Options.Path+"/conclave.json:ro")
}
