// What a Go program does with a server through go-redis: smoke PORT
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// check ends the program with what went wrong.
func check(holds bool, what string, values ...any) {
	if !holds {
		fmt.Println(append([]any{"failed:", what}, values...)...)
		os.Exit(1)
	}
}

func open(port string, protocol, db int) *redis.Client {
	options := &redis.Options{Addr: "127.0.0.1:" + port, Protocol: protocol, DB: db, PoolSize: 1}
	// The port is one of TLS where the authority's file is named.
	if file := os.Getenv("SLUICE_TLS_CA"); file != "" {
		text, err := os.ReadFile(file)
		check(err == nil, "the authority is read", err)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(text)
		options.TLSConfig = &tls.Config{RootCAs: pool, ServerName: "localhost"}
	}
	return redis.NewClient(options)
}

func exercise(port string, protocol int) {
	ctx := context.Background()
	client := open(port, protocol, 0)
	defer client.Close()
	check(client.Ping(ctx).Err() == nil, "PING", client.Ping(ctx).Err())
	client.FlushAll(ctx)

	check(client.Set(ctx, "a\x00\xff", "1", 1000*time.Second).Err() == nil, "SET")
	value, err := client.Get(ctx, "a\x00\xff").Result()
	check(err == nil && value == "1", "GET", value, err)
	ttl, _ := client.TTL(ctx, "a\x00\xff").Result()
	check(ttl > 990*time.Second && ttl <= 1000*time.Second, "TTL", ttl)
	check(client.Get(ctx, "missing").Err() == redis.Nil, "GET of nothing")
	once, _ := client.SetNX(ctx, "a\x00\xff", "2", 0).Result()
	check(!once, "SET NX")
	check(client.Expire(ctx, "a\x00\xff", 2000*time.Second).Val(), "EXPIRE")

	pipe := client.Pipeline()
	for index := range 500 {
		pipe.Set(ctx, "key:"+strconv.Itoa(index), index, 0)
		pipe.Incr(ctx, "key:"+strconv.Itoa(index))
	}
	replies, err := pipe.Exec(ctx)
	check(err == nil && len(replies) == 1000, "a pipeline", err)
	for index := range 500 {
		check(replies[2*index+1].(*redis.IntCmd).Val() == int64(index+1), "a pipeline's order")
	}
	found := map[string]bool{}
	keys := client.Scan(ctx, 0, "key:*", 50).Iterator()
	for keys.Next(ctx) {
		found[keys.Val()] = true
	}
	check(keys.Err() == nil && len(found) == 500, "SCAN", len(found), keys.Err())
	client.Set(ctx, "text", "x", 0)
	err = client.Incr(ctx, "text").Err()
	check(err != nil && strings.Contains(err.Error(), "not an integer"), "INCR of a text", err)

	other := open(port, protocol, 1)
	defer other.Close()
	check(other.DBSize(ctx).Val() == 0, "another database")
	id := other.ClientID(ctx).Val()
	check(client.ClientKillByFilter(ctx, "ID", strconv.FormatInt(id, 10)).Val() == 1, "CLIENT KILL")
	again, err := other.ClientID(ctx).Result()
	check(err == nil && again != id, "a killed connection is opened again", err)
	check(other.DBSize(ctx).Val() == 0, "the database after that")
}

func main() {
	for _, protocol := range []int{2, 3} {
		exercise(os.Args[1], protocol)
	}
	fmt.Printf("go-redis %s: RESP2 and RESP3 work\n", redis.Version())
}
