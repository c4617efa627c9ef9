// Reads and writes of a Go program while its cluster changes, through rueidis: loop MODE PORT...; the head of xtask/src/loops.rs says more.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/rueidis"
)

var ctx = context.Background()

type cluster struct{ rueidis.Client }

func (c cluster) set(key, value string) error {
	return c.Do(ctx, c.B().Set().Key(key).Value(value).Build()).Error()
}

func (c cluster) del(key string) error { return c.Do(ctx, c.B().Del().Key(key).Build()).Error() }

func (c cluster) get(key string) (string, error) {
	found, err := c.Do(ctx, c.B().Get().Key(key).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return found, err
}

func main() {
	options := rueidis.ClientOption{}
	for _, port := range os.Args[2:] {
		options.InitAddress = append(options.InitAddress, "127.0.0.1:"+port)
	}
	client, err := rueidis.NewClient(options)
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	loop(cluster{client}, "rueidis", "of go.mod")
}
