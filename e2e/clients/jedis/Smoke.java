// What a Java program does with a server through Jedis: java Smoke PORT
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ClientKillParams;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

public class Smoke {
    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static Jedis open(int port, RedisProtocol protocol, int database) {
        return new Jedis(new HostAndPort("127.0.0.1", port),
            DefaultJedisClientConfig.builder().protocol(protocol).database(database).build());
    }

    static void exercise(int port, RedisProtocol protocol) {
        try (Jedis client = open(port, protocol, 0)) {
            check("PONG".equals(client.ping()), "PING");
            client.flushAll();
            check("OK".equals(client.set("a", "1", SetParams.setParams().ex(1000))), "SET");
            check("1".equals(client.get("a")), "GET");
            check(client.get("missing") == null, "GET of nothing");
            check(client.set("a", "2", SetParams.setParams().nx()) == null, "SET NX");
            long ttl = client.ttl("a");
            check(ttl > 990 && ttl <= 1000, "TTL");
            check(client.expire("a", 2000) == 1, "EXPIRE");

            Pipeline pipeline = client.pipelined();
            List<Response<Long>> replies = new ArrayList<>();
            for (int index = 0; index < 500; index++) {
                pipeline.set("key:" + index, "" + index);
                replies.add(pipeline.incr("key:" + index));
            }
            pipeline.sync();
            for (int index = 0; index < 500; index++) {
                check(replies.get(index).get() == index + 1, "a pipeline's order");
            }
            Set<String> found = new HashSet<>();
            String cursor = ScanParams.SCAN_POINTER_START;
            do {
                ScanResult<String> page = client.scan(cursor, new ScanParams().match("key:*").count(50));
                found.addAll(page.getResult());
                cursor = page.getCursor();
            } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
            check(found.size() == 500, "SCAN");
            client.set("text", "x");
            try {
                client.incr("text");
                check(false, "INCR of a text passed");
            } catch (JedisDataException error) {
                check(error.getMessage().contains("not an integer"), "the text of an error");
            }
            long id;
            try (Jedis other = open(port, protocol, 1)) {
                check(other.dbSize() == 0, "another database");
                id = other.clientId();
                check(client.clientKill(new ClientKillParams().id("" + id)) == 1, "CLIENT KILL");
                try {
                    other.ping();
                    check(false, "a killed connection answered");
                } catch (JedisConnectionException expected) {
                    // Jedis leaves it to its owner to open another.
                }
            }
            try (Jedis again = open(port, protocol, 1)) {
                check(again.clientId() != id, "another connection");
            }
        }
    }

    public static void main(String[] arguments) {
        int port = Integer.parseInt(arguments[0]);
        exercise(port, RedisProtocol.RESP2);
        exercise(port, RedisProtocol.RESP3);
        System.out.println("jedis: RESP2 and RESP3 work");
    }
}
