package settings

import (
	"fmt"
	"os"

	"conclave/engine/config"
)

// Default is what holds for a worker without a configuration.
func Default() Settings { return config.Defaults[Settings]() }

// Load reads a worker configuration from a YAML or JSON file.
func Load(path string) (Settings, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Settings{}, fmt.Errorf("read the worker configuration: %w; it takes a file that can be read", err)
	}
	return Parse(path, data)
}

// Parse reads a worker configuration. Name stands for the text in messages. An
// error in the text is of type config.Problems and contains everything that is
// wrong.
func Parse(name string, data []byte) (Settings, error) {
	return config.Decode(name, data, config.Cluster, check)
}
