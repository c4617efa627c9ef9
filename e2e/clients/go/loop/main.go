// Reads and writes of a Go program while its cluster changes, through go-redis: loop MODE PORT...; the head of xtask/src/loops.rs says more.
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

var ctx = context.Background()

type cluster struct{ *redis.ClusterClient }

func (c cluster) set(key, value string) error { return c.Set(ctx, key, value, 0).Err() }
func (c cluster) del(key string) error        { return c.Del(ctx, key).Err() }
func (c cluster) get(key string) (string, error) {
	found, err := c.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return found, err
}

func main() {
	options := redis.ClusterOptions{}
	for _, port := range os.Args[2:] {
		options.Addrs = append(options.Addrs, "127.0.0.1:"+port)
	}
	if os.Args[1] == "quiet" {
		options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	}
	if os.Args[1] == "tuned" {
		options.ClusterStateReloadInterval = time.Second
	}
	loop(cluster{redis.NewClusterClient(&options)}, "go-redis", redis.Version())
}
