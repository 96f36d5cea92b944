"""SQLAlchemy's session and a task in one transaction: `tx=session`.

Both go into the same SQLite file, so that an order without its receipt, or a receipt without its order, can't be.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import brant
from brant.tasks import Task


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    mailed: Mapped[bool] = mapped_column(default=False)


def mailing(db: brant.Database, engine: Engine) -> Task[[int], None]:
    """The task that mails a receipt."""

    @db.task("emails", name="mail_receipt")
    def mail_receipt(order_id: int) -> None:
        with Session(engine) as session, session.begin():
            session.get_one(Order, order_id).mailed = True

    return mail_receipt


def place_order(engine: Engine, mail_receipt: Task[[int], None], customer: str, *, declined: bool = False) -> None:
    with Session(engine) as session, session.begin():
        order = Order(customer=customer)
        session.add(order)
        session.flush()  # gives the order its id
        mail_receipt.enqueue(order.id, tx=session)
        if declined:
            raise ConnectionError("card declined")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, brant.open(Path(folder) / "shop.db") as db:
        engine = create_engine(f"sqlite:///{db.path}")
        Base.metadata.create_all(engine)
        mail_receipt = mailing(db, engine)
        place_order(engine, mail_receipt, "alice")
        try:
            place_order(engine, mail_receipt, "mallory", declined=True)
        except ConnectionError as error:
            print(f"rolled back, order and task: {error}")
        print(f"to mail: {db.queue('emails').stats().pending}")
        db.run_workers_sync("emails", concurrency=1, drain=True)
        with Session(engine) as session:
            for order in session.query(Order):
                print(f"order {order.id} of {order.customer}: {'mailed' if order.mailed else 'not mailed'}")
        engine.dispose()


if __name__ == "__main__":
    main()
